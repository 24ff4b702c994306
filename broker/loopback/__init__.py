"""
A model on loopback that says what a script tells it to, over the protocols that agents speak.

It stands in for a provider where an agent is tried offline: `broker doctor --agent`, tests, and
replay. The rooms:

- ``script``     what it says, and how a conversation is known
- ``anthropic``  Messages
- ``chat``       OpenAI Chat Completions
- ``responses``  OpenAI Responses
- ``gemini``     Gemini generateContent
- ``server``     all of them behind one address
"""
