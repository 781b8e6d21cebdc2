"""A program for OpenAI's Batch API, as it is: only `OPENAI_BASE_URL` says that it runs at endpoints of one's own.

orchestrator emulate --handler examples/handlers.py:chat
export ORCHESTRATOR_API_KEY=any ORCHESTRATOR_SERVERLESS_URL=http://127.0.0.1:8900      # in a second terminal
orchestrator serve --batch-api 127.0.0.1:8800 --config examples/openai_batch.toml
export OPENAI_BASE_URL=http://127.0.0.1:8800/v1 OPENAI_API_KEY=any                     # in a third one
python examples/openai_batch.py
"""

import json
import time

from openai import OpenAI

SECONDS = 1.0
QUESTIONS = ["What is a lighthouse?", "Why do foxes climb?", "When does the theatre open?"]


def main() -> None:
    client = OpenAI()
    requests = [
        {
            "custom_id": f"question-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "small", "messages": [{"role": "user", "content": question}]},
        }
        for number, question in enumerate(QUESTIONS)
    ]
    text = "".join(json.dumps(request) + "\n" for request in requests)
    file = client.files.create(file=("requests.jsonl", text.encode()), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"night": "7"}
    )
    while batch.status in ("validating", "in_progress", "finalizing"):
        time.sleep(SECONDS)
        batch = client.batches.retrieve(batch.id)
    print(f"{batch.id} is {batch.status}", f"{batch.usage.total_tokens} tokens" if batch.usage else "")
    if batch.output_file_id is not None:
        for line in client.files.content(batch.output_file_id).text.splitlines():
            result = json.loads(line)
            print(result["custom_id"], result["response"]["body"]["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
