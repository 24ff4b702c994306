"""
Every ceiling of the broker, named, with its unit.

Limits count work or size, never wall-clock time, so that the same input gets the same answer
on a slow machine.
"""

from __future__ import annotations

from typing import Final

# ── scope text ──
MAX_SCOPE_CHARS: Final = 16_384  # characters in one KEY=VALUE text
MAX_SCOPE_ITEMS: Final = 1_024  # items in one list
MAX_SCOPE_PATTERNS: Final = 8_192  # items in all lists of one scope, or of one ticket
MAX_SCOPE_TEXTS: Final = 256  # KEY=VALUE texts in one scope
MAX_POLICY_BYTES: Final = 262_144  # bytes of one policy file
MAX_POLICY_DEPTH: Final = 4  # policies that name policies
MAX_PROJECT_POLICIES: Final = 64  # policies of one project file

# ── patterns ──
MAX_PATTERN_CHARS: Final = 4_096  # characters in one pattern
MAX_PATTERN_PARTS: Final = 256  # components in one path pattern
MAX_INCLUSION_STEPS: Final = 200_000  # steps to decide whether one list covers another

# ── rules with conditions ──
MAX_CONDITIONS: Final = 64  # conditions of one rule
MAX_CONDITION_STEPS: Final = 16  # names and lists on the way to one argument
MAX_CONDITION_VALUES: Final = 256  # values of one set
MAX_VALUE_CHARS: Final = 4_096  # characters in one value, or in what stands in the typed line
MAX_RULE_STEPS: Final = 40_000  # steps to decide whether rules cover a rule together
MAX_RULE_NAMES: Final = 8  # name patterns of rules that are weighed against one another

# ── calls ──
MAX_CALLS: Final = 2**31 - 1  # the largest `calls`
MAX_TOOL_CHARS: Final = 256  # characters in a tool's name
MAX_PATH_CHARS: Final = 65_536  # characters in one path argument
MAX_URL_CHARS: Final = 65_536  # characters in one URL argument
MAX_URL_FRONT_CHARS: Final = 4_096  # characters between the scheme and the path of a URL
MAX_HOST_CHARS: Final = 253  # characters in a host name (RFC 1035, without the closing dot)
MAX_LABEL_CHARS: Final = 63  # characters between two dots of a host name (RFC 1035)
MAX_ARGUMENT_DEPTH: Final = 64  # nesting of a call's arguments
MAX_ARGUMENT_VALUES: Final = 250_000  # values in a call's arguments, at any depth
MAX_JSON_HOLDERS: Final = 2 * MAX_ARGUMENT_VALUES  # objects and lists in a text that is read
MAX_SUBJECTS: Final = 10_000  # different paths and URLs in one call
MAX_SUBJECT_CHARS: Final = 32 * 2**20  # characters of all paths and URLs of one call, spelled out
MAX_NESTED_CALLS: Final = 1_000  # calls inside one call
MAX_CALL_LEVELS: Final = 8  # calls inside calls, the outermost not counted
MAX_LINK_HOPS: Final = 40  # symbolic links followed for one path (Linux: MAXSYMLINKS)
MAX_PATH_STEPS: Final = 250_000  # path components read for one call, those of links included
MAX_QUICK_CHARS: Final = 4_096  # characters of a place that is judged without being measured
MAX_MATCH_WORK: Final = 2**26  # characters of a call's places and names, times starred patterns
MATCH_SETUP_CHARS: Final = 50  # characters that a pattern is tried on in the time it takes to begin
MAX_CATALOG_BYTES: Final = 2**20  # bytes of one catalog file
MAX_PATCH_CHARS: Final = 4 * 2**20  # characters in a patch argument

# ── tickets ──
MAX_TICKET_BYTES: Final = 262_144  # bytes of a ticket's wire form
MAX_CHAIN_LINKS: Final = 64  # links, the root included
MAX_CAVEATS: Final = 256  # caveats in one link

# ── receipts ──
MAX_LINE_BYTES: Final = 2**20  # bytes of one receipt line, without its newline
MAX_RECORD_DEPTH: Final = 32  # nesting of a line's data
MAX_SAFE_INT: Final = 2**53 - 1  # RFC 8785: the largest exact integer
MAX_SID_CHARS: Final = 64  # characters in a session's name
MAX_GROUP_LINES: Final = 64  # lines that release nothing, before they are made durable
MAX_GROUP_S: Final = 0.05  # seconds between the first such line and the one that flushes it
RESERVE_BYTES: Final = 65_536  # bytes held back so that a full disk still takes the seal

# ── checkpoints and proofs ──
MAX_CHECKPOINT_LINES: Final = 64  # lines without a checkpoint, before one is made
MIN_CHECKPOINT_S: Final = 0.25  # seconds between two, however fast lines come
MAX_CHECKPOINT_S: Final = 5.0  # seconds after which one is made for fewer
MAX_NOTE_BYTES: Final = 262_144  # bytes of one signed note: room for witnesses with large keys
MAX_NOTE_SIGNATURES: Final = 100  # signatures on one note
MAX_VKEY_BYTES: Final = 1_024  # bytes of a public key's file
MAX_PROOF_BYTES: Final = 2 * 2**20  # bytes of one proof: room for the longest line in base64
MAX_PROOF_HASHES: Final = 63  # hashes on the way to a root: a tree of 2**63 leaves

# ── sessions ──
MAX_CONFIG_BYTES: Final = 65_536  # bytes of the configuration file
MAX_INTENT_CHARS: Final = 65_536  # characters in the typed line of an intent
MAX_TICKETS: Final = 10_000  # tickets that one session keeps in mind
MAX_NAME_CHARS: Final = 256  # characters kept of a tool, a call id, an actor
MAX_TEXT_CHARS: Final = 1_024  # characters kept of a path, a command, a reason
MAX_SUBJECTS_KEPT: Final = 64  # paths and URLs named in one entry

# ── second opinions ──
MAX_OPINIONS: Final = 8  # opinions that one session asks
MAX_OPINION_QUESTIONS: Final = 256  # questions that are asked about one call
MAX_OPINION_CHARS: Final = 65_536  # characters in the name of one thing that is asked about
MAX_OPINION_BYTES: Final = 2**20  # bytes of one answer, and of one policy file
MAX_OPINION_WAITING: Final = 32  # calls that wait for one opinion at the same time

# ── the decision service ──
MAX_REQUEST_BYTES: Final = 64 * 2**20  # bytes of one request to a session's socket
MAX_AGENT_CHARS: Final = 64  # characters in the name of a hook's agent
MAX_CONNECTIONS: Final = 64  # connections served at the same time; more wait their turn
MAX_SOCKET_PATH_BYTES: Final = 103  # bytes of a socket's path that every system takes
MAX_SERVED_BODY_BYTES: Final = 2**20  # bytes of the body of one request over HTTP
MAX_SERVED_HEAD_BYTES: Final = 65_536  # bytes of the request line and headers of one
MAX_SERVED_CONNECTIONS: Final = 1_024  # connections over HTTP at the same time; more get a 503
MAX_SERVED_SESSIONS: Final = 256  # sessions that one service holds open
MAX_EVALUATIONS: Final = 1_024  # evaluations of one request
MAX_SERVED_FILE_BYTES: Final = 4 * 2**20  # bytes of a service's file of keys, or of subjects
MAX_SETTINGS_BYTES: Final = 4 * 2**20  # bytes of an agent's settings file
MAX_CANARY_S: Final = 90.0  # seconds from an agent's start until its canary must be answered
MAX_SLOW_CANARY_S: Final = 240.0  # the same, for an agent that may install packages first

# ── records of a harness ──
MAX_INLINE_BYTES: Final = 2**20  # bytes of a body that is kept in lines; above, in files
MAX_RECORDED_BYTES: Final = 128 * 2**20  # bytes of an answer that are kept; above, only its digest
MAX_BLOB_BYTES: Final = 256 * 2**20  # bytes of one text that is kept in a file
MAX_RECORDS_BYTES: Final = 2 * 2**30  # bytes of the lines of one session's records

# ── recordings of runs ──
MAX_TRACE_LINE_BYTES: Final = 2**20  # bytes of one event's line; a longer payload is a blob
MAX_TRACE_EVENTS: Final = 1_000_000  # events of one run that are held in memory
MAX_TRACE_PROBLEMS: Final = 1_000  # problems of one run that are told; the rest is counted
MAX_MANIFEST_BYTES: Final = 2**20  # bytes of a run's manifest
MAX_CONVERSATIONS: Final = 64  # conversations of one run whose last request is kept in mind

# ── the reference agent ──
MAX_FILE_BYTES: Final = 8 * 2**20  # bytes of one file that a tool reads
MAX_PAGE_BYTES: Final = 2 * 2**20  # bytes of one page that a tool fetches
MAX_REDIRECTS: Final = 5  # redirects of one fetch, each decided anew
MAX_RESULT_CHARS: Final = 30_000  # characters of one result that the model sees
MAX_SPILL_BYTES: Final = 64 * 2**20  # bytes of one result that is kept for the model to recall
MAX_MATCHES: Final = 200  # lines or files that one search returns
MAX_SCRIPT_BYTES: Final = 2**20  # bytes of one script
MAX_AGENT_DEPTH: Final = 5  # subagents below subagents
MAX_AGENT_TURNS: Final = 100  # turns of an agent for one line of a person, if they set no other
MAX_SERVER_TOOLS: Final = 512  # tools of MCP servers that one run offers
MAX_SERVER_S: Final = 120.0  # seconds for one answer of an MCP server

# ── the sandbox ──
MAX_WALL_ENTRIES: Final = 200_000  # entries of a workspace that are looked at for one plan
MAX_WALL_PLACES: Final = 1_000  # places that are granted or cut out singly, for one access
MAX_EGRESS_HEAD_BYTES: Final = 65_536  # bytes of the head of one request to the egress proxy
MAX_EGRESS_CONNECTIONS: Final = 128  # connections through the egress proxy at the same time
MAX_EGRESS_TOLD: Final = 256  # different hosts of which a receipt tells, each once

# ── recording ──
MAX_CAPTURE_HEAD_BYTES: Final = 262_144  # bytes of the head of one request or answer
MAX_CAPTURE_CONNECTIONS: Final = 256  # connections of one run's agent at the same time
MAX_CAPTURED_BYTES: Final = 32 * 2**20  # bytes of a body that are kept; above, only its digest
MAX_CAPTURE_CONVERSATIONS: Final = 1_024  # conversations of one run that are told apart
MAX_CAPTURE_CALLS: Final = 10_000  # calls of one conversation that are kept in mind
MAX_TAPE_MEMORY_BYTES: Final = 2**20  # bytes of a body that wait in memory; above, in a file
