// The calls of the provider for the AI SDK, each tried once.
import { createRunpod } from "@runpod/ai-sdk-provider";
import { experimental_generateSpeech, experimental_transcribe, generateImage, generateText, streamText } from "ai";
import { check, tried } from "./trying.mjs";

const base = process.env.RUNPOD_ENDPOINT_BASE_URL;
const chat = createRunpod({ baseURL: `${base}/llm/openai/v1` });

await tried("generateText(runpod(...))", async () => {
  const { text } = await generateText({ model: chat("m"), prompt: "hello", maxRetries: 0 });
  check(text === "hi there", text);
});
await tried("streamText(runpod(...))", async () => {
  const parts = [];
  const { textStream } = streamText({ model: chat("m"), prompt: "hello", maxRetries: 0 });
  for await (const part of textStream) parts.push(part);
  check(parts.join("") === "hi there", parts);
});
await tried("generateText(runpod.completionModel(...))", async () => {
  const { text } = await generateText({ model: chat.completionModel("m"), prompt: "hello", maxRetries: 0 });
  check(text === "hi there", text);
});
await tried("generateImage(runpod.image(...))", async () => {
  const model = createRunpod({ baseURL: `${base}/media` }).image("m");
  const { image } = await generateImage({ model, prompt: "a lighthouse", maxRetries: 0 });
  check(image.uint8Array.length > 0, image.mediaType);
});
await tried("generateSpeech(runpod.speech(...))", async () => {
  const model = createRunpod().speech(`${base}/media`);
  const { audio } = await experimental_generateSpeech({ model, text: "hello", maxRetries: 0 });
  check(audio.uint8Array.length > 0, audio.mediaType);
});
await tried("transcribe(runpod.transcription(...))", async () => {
  const model = createRunpod().transcription(`${base}/media`);
  const { text } = await experimental_transcribe({ model, audio: new Uint8Array([1, 2, 3]), maxRetries: 0 });
  check(text === "hi there", text);
});
