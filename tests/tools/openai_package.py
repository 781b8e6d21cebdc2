"""The calls of the `openai` package, each tried once, at an endpoint whose worker speaks that interface."""

from typing import Any

from openai import OpenAI

from tests.tools.trying import tried

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def check(holds: bool) -> None:
    assert holds


def main() -> None:
    client = OpenAI(max_retries=0)
    tried("models.list", lambda: check([model.id for model in client.models.list()] == ["m"]))
    tried("chat.completions.create", lambda: check(said(client.chat.completions.create(**ASKED)) == "hi there"))
    tried(
        "chat.completions.create(stream=True)",
        lambda: check(
            "".join(
                part.choices[0].delta.content or "" for part in client.chat.completions.create(**ASKED, stream=True)
            )
            == "hi there"
        ),
    )
    tried(
        "completions.create",
        lambda: check(client.completions.create(model="m", prompt="hello").choices[0].text == "hi there"),
    )


def said(completion: object) -> str:
    return str(completion.choices[0].message.content)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
