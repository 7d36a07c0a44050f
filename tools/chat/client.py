"""Asks a server with OpenAI's client for Python; see main.go."""

import json
import sys

from openai import APIStatusError, OpenAI

model, question, follow_up = sys.argv[1:]
client = OpenAI()
seen = {"models": [m.id for m in client.models.list()]}
seen["model"] = client.models.retrieve(f"{model}/bm25").id


def cited(annotations):
    out = []
    for a in annotations or []:
        u = a["url_citation"] if isinstance(a, dict) else a.url_citation.model_dump()
        out.append({"start": u["start_index"], "end": u["end_index"], "title": u["title"], "url": u["url"]})
    return out


def told(completion):
    choice = completion.choices[0]
    return {
        "content": choice.message.content,
        "finish": choice.finish_reason,
        "annotations": cited(choice.message.annotations),
        "tokens": completion.usage.total_tokens,
        "standalone": completion.model_extra["sluice"].get("standalone_question", ""),
    }


messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
asked = {"model": model, "messages": messages, "temperature": 0.2, "user": "test"}
answer = client.chat.completions.create(**asked)
seen["answer"] = told(answer)
more = messages + [answer.choices[0].message.to_dict(), {"role": "user", "content": follow_up}]
seen["follow_up"] = told(client.chat.completions.create(**{**asked, "messages": more}))

stream = {"content": "", "finish": "", "annotations": [], "tokens": 0, "standalone": ""}
for chunk in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
    if chunk.usage:
        stream["tokens"] = chunk.usage.total_tokens
    for c in chunk.choices:
        stream["content"] += c.delta.content or ""
        stream["finish"] = c.finish_reason or stream["finish"]
        stream["annotations"] += cited((c.delta.model_extra or {}).get("annotations"))
seen["stream"] = stream


def refusal(**request):
    try:
        got = client.chat.completions.create(**{**asked, **request})
        if request.get("stream"):
            for _ in got:
                pass
    except APIStatusError as e:
        return {"status": e.status_code, "type": e.type, "param": e.param, "code": e.code}
    return {"status": 0, "type": "nothing was refused", "param": "", "code": ""}


seen["tools"] = refusal(tools=[{"type": "function", "function": {"name": "look"}}])
seen["no_model"] = refusal(model="nowhere")
seen["no_model_streamed"] = refusal(model="nowhere", stream=True)
print(json.dumps(seen))
