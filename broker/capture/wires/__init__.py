"""
What requests and answers of four protocols say: one file for each, read leniently.

- ``said``       what is told of a request and of an answer, whatever the protocol
- ``anthropic``  Messages
- ``chat``       OpenAI Chat Completions
- ``responses``  OpenAI Responses
- ``gemini``     Gemini generateContent
- ``reading``    which of them a request speaks, and bytes as what they say
"""
