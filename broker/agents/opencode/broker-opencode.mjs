// The broker's plugin for opencode: it asks before every call.
//
// opencode goes on without a plugin that does not load. So the run is started with a rule that
// denies every tool, and only this file takes that rule away, once the session has answered. What
// `tool.execute.before` throws is a refusal, with its text as the reason. The call runs with the
// same `args`, so freezing them fixes what runs.

import { asker, frozen, teller, timely } from "./ask.mjs"

const CLOSED = "**" // the rule's pattern, as the launch spells it

export const Broker = async ({ client, directory }) => {
  const [ask, tell] = [asker("opencode"), teller("opencode")]
  const agents = new Map() // by session: who calls; nothing for the person's own agent

  // What a subagent was told is the first text of its session.
  async function task(id) {
    const { data } = await timely(client.session.messages({ path: { id } }))
    const first = data?.find(({ info }) => info.role === "user")
    return first?.parts.find(({ type }) => type === "text")?.text
  }

  async function who(id) {
    if (!agents.has(id)) {
      const { data } = await timely(client.session.get({ path: { id } }))
      if (data?.id !== id) throw new Error("refused: opencode does not say whose call this is")
      const { parentID: parent, agent } = data
      if (!parent) agents.set(id, {})
      else {
        const above = (await who(parent)).agent
        const told = { agent: id, kind: String(agent ?? ""), parent: above, task: await task(id) }
        agents.set(id, told)
      }
    }
    return agents.get(id)
  }

  return {
    config: async (config) => {
      await ask({ event: "start", servers: Object.keys(config.mcp ?? {}) })
      delete config.permission[CLOSED]
    },
    "tool.execute.before": async ({ tool, sessionID, callID: call }, { args }) => {
      const said = { event: "call", tool, arguments: frozen(args), call, cwd: directory }
      await ask({ ...said, ...(await who(sessionID)) })
    },
    "tool.execute.after": async ({ tool, callID: call }, { output, content, metadata }) => {
      const ended = tool === "task" ? metadata?.sessionId : undefined
      tell({ event: "end", call, ok: true, output: output ?? content, ended })
    },
  }
}
