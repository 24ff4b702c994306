// The broker's plugin for opencode: it asks before every call.
//
// opencode goes on without a plugin that does not load. So the run is started with a rule that
// denies every tool, and only this file takes that rule away, once the session has answered. What
// `tool.execute.before` throws is a refusal, with its text as the reason. The call runs with the
// same `args`, so freezing them fixes what runs.

import { asker, frozen, timely } from "./ask.mjs"

const CLOSED = "**" // the rule's pattern, as the launch spells it

export const Broker = async ({ client, directory }) => {
  const ask = asker("opencode")
  const agents = new Map() // by session: undefined for the person's own, else its kind of agent

  async function kind(id) {
    if (!agents.has(id)) {
      const { data } = await timely(client.session.get({ path: { id } }))
      if (data?.id !== id) throw new Error("refused: opencode does not say whose call this is")
      agents.set(id, data.parentID ? String(data.agent ?? "") : undefined)
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
      const helper = await kind(sessionID)
      await ask(helper === undefined ? said : { ...said, agent: sessionID, kind: helper })
    },
  }
}
