// The broker's plugin for Cline CLI: it asks before every call, of every agent of the run.
//
// Cline runs plugins in a process of their own and ends the run when `beforeTool` throws, takes
// longer than three seconds, or takes that process with it. So a refusal is given back, not
// thrown: the model reads it, and the run goes on. What is judged is what the call runs with:
// hooks of files have had their turn by then.
//
// Cline goes on without a plugin that does not load. A run that nobody watches is therefore started
// with every tool closed, and only this file opens a call, once the session let it through.

import { basename, dirname } from "node:path"
import { fileURLToPath } from "node:url"
import { asker, teller } from "./ask.mjs"

const DEADLINE_MS = 2500
const ask = asker("cline", DEADLINE_MS)
const tell = teller("cline")
const running = new Set() // the calls that were let through and have not ended
const opens = process.env.BROKER_CLINE_OPENS === "1" ? { policy: { autoApprove: true } } : undefined

// Return the texts that an agent was given by whoever started it.
function tasks(messages) {
  const told = (messages ?? []).filter((message) => message.role === "user")
  return told.flatMap(({ content }) => content.map((part) => part.text ?? ""))
}

export default {
  name: basename(dirname(fileURLToPath(import.meta.url))), // of this run alone
  manifest: { capabilities: ["hooks"] },
  setup: async () => {
    await ask({ event: "start" })
  },
  hooks: {
    beforeTool: async ({ snapshot, toolCall, input }) => {
      try {
        await ask({
          event: "call",
          tool: toolCall.toolName,
          arguments: input,
          call: toolCall.toolCallId,
          cwd: process.cwd(),
          agent: snapshot.agentId,
          parent: snapshot.parentAgentId ?? "",
          tasks: tasks(snapshot.messages),
        })
      } catch (error) {
        return { skip: true, reason: error.message }
      }
      running.add(toolCall.toolCallId)
      return opens
    },
    afterTool: async ({ toolCall, result }) => {
      const call = toolCall.toolCallId
      const [ok, output] = [result?.isError !== true, result?.output]
      if (running.delete(call)) tell({ event: "end", call, ok, output })
    },
  },
}
