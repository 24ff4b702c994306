// Asks the broker's session about a call, from inside an agent's own process.
//
// The frames are those of broker/service/protocol.py: four bytes of length, then the body. What
// is not exactly an allow throws, and agents take what a plugin throws for a refusal: no socket,
// no answer in time, an answer that is cut short, too long, or anything else.

import net from "node:net"

const DEADLINE_MS = 15000
const MAX_ANSWER_BYTES = 1048576
const ALLOW = Buffer.from("answer/1 allow\n")
const REFUSE = Buffer.from("answer/1 refuse\n")

// Return a function that asks and comes back when the answer is an allow. The socket is looked up
// once, at the start: what changes the environment later changes nothing here.
export function asker(agent, deadlineMs = DEADLINE_MS) {
  const path = String(process.env.BROKER_SOCKET)
  return async (said) => {
    return read(await exchanged(path, `hook ${agent}\n${JSON.stringify(said)}`, deadlineMs))
  }
}

// Return a function that tells what has happened: nothing waits for it, and nothing comes of it.
export function teller(agent) {
  const ask = asker(agent)
  return (said) => void ask(said).catch(() => {})
}

// Return the arguments, fixed as they are: nothing that comes later can change what was judged.
export function frozen(value) {
  if (value === null || typeof value !== "object") return value
  for (const inside of Object.values(value)) frozen(inside)
  return Object.freeze(value)
}

// Return what a promise comes to, or throw at the deadline.
export function timely(promise) {
  let late
  const end = new Promise((_, reject) => {
    late = setTimeout(() => reject(refused("the agent did not answer in time")), DEADLINE_MS)
  })
  return Promise.race([promise, end]).finally(() => clearTimeout(late))
}

function exchanged(path, text, deadlineMs) {
  return new Promise((resolve, reject) => {
    const body = Buffer.from(text)
    const size = Buffer.alloc(4)
    size.writeUInt32BE(body.length)
    const connection = net.createConnection({ path })
    const end = (settle, result) => {
      clearTimeout(late)
      connection.destroy()
      settle(result)
    }
    const late = setTimeout(
      () => end(reject, refused("the broker did not answer in time")),
      deadlineMs,
    )
    let answer = Buffer.alloc(0)
    connection.on("connect", () => connection.write(Buffer.concat([size, body])))
    connection.on("error", () => end(reject, refused("the broker could not be asked")))
    connection.on("close", () => end(reject, refused("the broker closed the connection")))
    connection.on("data", (part) => {
      answer = Buffer.concat([answer, part])
      const due = answer.length < 4 ? 0 : 4 + answer.readUInt32BE(0)
      if (due > MAX_ANSWER_BYTES) end(reject, refused("the broker's answer is too long"))
      else if (due && answer.length >= due) end(resolve, answer.subarray(4))
    })
  })
}

function read(answer) {
  if (answer.equals(ALLOW)) return
  // After the first line: a byte, the length of the reason, the reason, and an empty text.
  const start = REFUSE.length + 5
  const told = answer.length > start && answer.subarray(0, REFUSE.length).equals(REFUSE)
  const reason = told ? answer.subarray(start, start + answer.readUInt32BE(start - 4)).toString() : ""
  throw reason ? new Error(reason) : refused("the broker's answer cannot be read")
}

function refused(why) {
  return new Error(`refused: ${why}; do not work around this; ask the person`)
}
