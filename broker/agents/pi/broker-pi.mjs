// The broker's extension for pi: it asks before every call.
//
// pi does not start when this throws, and takes what `tool_call` throws for a refusal, with its
// text as the reason. pi has checked the arguments by then and runs the call with this same
// object, so freezing it fixes what runs.

import { asker, frozen, teller } from "./ask.mjs"

export default async function (pi) {
  const [ask, tell] = [asker("pi"), teller("pi")]
  await ask({ event: "start" })
  // A recorded run asks its models through a server of ours: other addresses, the same models.
  for (const [name, baseUrl] of Object.entries(JSON.parse(process.env.BROKER_PI_MODELS ?? "{}"))) {
    pi.registerProvider(name, { baseUrl })
  }
  pi.on("tool_call", async (event, context) => {
    const { toolName: tool, toolCallId: call, input } = event
    await ask({ event: "call", tool, arguments: frozen(input), call, cwd: context.cwd })
  })
  pi.on("tool_result", ({ toolCallId: call, isError, content: output }) => {
    tell({ event: "end", call, ok: !isError, output })
  })
}
