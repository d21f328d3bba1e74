"""A model that says what a script tells it to, so that coding agents work without a network.

It listens on 127.0.0.1 and speaks what the agents speak: OpenAI's responses and chat completions,
Anthropic's messages, Gemini's generateContent. A script is a list of steps for each name of a task; what
the user typed has `TASK name` in it. A step is a dictionary:

    say       the words of the answer
    seconds   how long that takes; without words, how long the model thinks
    shell     a command that the agent's shell tool is to execute
    question  a question to the person, with the choices Red and Blue
    tool      NAME of a tool of the MCP server `nbs`, with `arguments`

What the model knows is in `events`: (time, what, task, step), where what is `asked` (a request has come),
`called` (an answer with a call of a tool has gone), `done` (one without). The text of each task is in `tasks`,
what the tool of each step of the last one returned in `results`, and the steps of which a PNG came back in `pictures`.
"""

import gzip
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = "scripted-1"

# What agents call the tool that executes a command, and the one that finds tools which they hold back.
SHELLS = {"exec_command", "shell_command", "shell", "Bash", "bash", "run_shell_command"}
FINDERS = {"ToolSearch", "tool_search"}

# What agents call the tool that asks the person a question, and what it asks.
ASKERS = {"AskUserQuestion", "ask_user_question", "ask_user", "request_user_input", "question"}
OPTIONS = [{"label": "Red", "description": "Like blood"}, {"label": "Blue", "description": "Like the sky"}]

# How a PNG begins, in base64.
PNG = "iVBORw0KGgo"

# What agents ask the model for themselves, beside the user's task.
BESIDE = re.compile("SUGGESTION MODE|ONLY the suggestion|managed memory index")


class Model:
    def __init__(self, script):
        self.script, self.events, self.results, self.pictures, self.tasks = script, [], {}, set(), []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.model = True, self
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def note(self, what, task, step):
        self.events.append((time.time(), what, task, step))

    def last(self, what, since=0.0):
        """When that happened first, since then; None: not yet."""
        return next((at for at, event, *_ in self.events if event == what and at >= since), None)


# ---- What has been said, in one form for all: ("user", text), ("call", name), ("result", text), in order ----


def words_of(content):
    parts = [{"text": content}] if isinstance(content, str) else content or []
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value)


def read_responses(body):
    for item in body.get("input", []):
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "user":
            yield "user", words_of(item.get("content"))
        elif kind.endswith("_call"):
            yield "call", item.get("name", kind)
        elif kind.endswith("_output"):
            yield "result", as_text(item.get("output"))


def read_chat(body):
    for message in body.get("messages", []):
        if message["role"] == "user":
            yield "user", words_of(message.get("content"))
        elif message["role"] == "tool":
            yield "result", words_of(message.get("content"))
        for call in message.get("tool_calls") or []:
            yield "call", call["function"]["name"]


def read_anthropic(body):
    for message in body.get("messages", []):
        parts = message["content"] if isinstance(message["content"], list) else []
        for part in parts:
            if part["type"] == "tool_result":
                yield "result", as_text(part.get("content"))
            elif part["type"] == "tool_use":
                yield "call", part["name"]
        if message["role"] == "user" and words_of(message["content"]):
            yield "user", words_of(message["content"])


def read_gemini(body):
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if "functionResponse" in part:
                yield "result", as_text(part["functionResponse"].get("response"))
            elif "functionCall" in part:
                yield "call", part["functionCall"]["name"]
            elif content.get("role") != "model" and "text" in part:
                yield "user", part["text"]


def tools_of(body):
    """The tools by the name that a call has: the parameters of each, and its name space."""
    tools = {}
    for tool in body.get("tools") or []:
        for one in [tool, tool.get("function")] + tool.get("functionDeclarations", []):
            if one and "name" in one and one.get("type") != "namespace":
                schema = (one.get(key) for key in ("parameters", "input_schema", "parametersJsonSchema"))
                tools[one["name"]] = (next(filter(None, schema), {}).get("properties", {}), None)
        for one in tool.get("tools", []):
            tools[tool["name"] + "__" + one["name"]] = (one.get("parameters", {}).get("properties", {}), (tool["name"], one["name"]))
    return tools


class Answer:
    def __init__(self, say="", seconds=0.0, call=None, arguments=None, space=None):
        self.say, self.seconds, self.call, self.arguments, self.space = say, seconds, call, arguments or {}, space
        self.when_said = lambda: None

    def words(self):
        """Word by word, over that time. What comes of it is known before the agent learns of it."""
        words = re.findall(r"\S+\s*", self.say) or [""]
        for word in words:
            time.sleep(self.seconds / len(words))
            yield word
        self.when_said()


def answer(script, said, tools):
    """What is answered, and to which step of which task; None: to none."""
    at = max((n for n, (kind, text) in enumerate(said) if kind == "user" and re.search(r"TASK \w", text)), default=None)
    if at is None or not tools or any(kind == "user" and BESIDE.search(text) for kind, text in said[at:]):
        return Answer("Nothing."), None, 0
    task = re.findall(r"TASK (\w+)", said[at][1])[-1]
    calls = [name for kind, name in said[at:] if kind == "call"]
    step = sum(name not in FINDERS for name in calls)
    if step >= len(script.get(task, [])):
        return Answer("There is no more to do."), task, step
    wanted = script[task][step]
    made = Answer(wanted.get("say", ""), wanted.get("seconds", 0))
    if "shell" in wanted:
        made.call = next(iter(SHELLS & set(tools)), "shell")
        known = tools.get(made.call, ({}, None))[0]
        made.arguments = {"cmd" if "cmd" in known else "command": wanted["shell"]}
        extra = {"description": "do it", "is_background": False, "sandbox_permissions": "require_escalated", "justification": "May I?"}
        made.arguments.update((name, value) for name, value in extra.items() if name in known)
    elif "question" in wanted:
        made.call = next(iter(ASKERS & set(tools)), "ask_user")
        asked = {"question": wanted["question"], "header": "Choice", "options": OPTIONS}
        more = {"ask_user": {"type": "choice"}, "request_user_input": {"id": "choice"}}
        made.arguments = {"questions": [asked | more.get(made.call, {})]}
    elif "tool" in wanted:
        finder, full = FINDERS & set(tools), re.compile(rf"(mcp_+)?nbs_+{wanted['tool']}")
        made.call = next(filter(full.fullmatch, tools), None)
        made.arguments = wanted["arguments"]
        if not made.call and finder and not FINDERS & set(calls):
            made.call, made.arguments = finder.pop(), {"query": f"select:mcp__nbs__{wanted['tool']}", "max_results": 10}
        made.call = made.call or f"mcp__nbs__{wanted['tool']}"
        made.space = tools.get(made.call, (None, None))[1]
    return made, task, step


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def whole(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def event(self, value):
        """A piece of a stream."""
        kind = f"event: {value['type']}\n" if isinstance(value, dict) and "type" in value else ""
        self.wfile.write(f"{kind}data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())

    def do_GET(self):
        model = {"id": NAME, "object": "model", "type": "model", "display_name": NAME, "created": 1, "owned_by": "tests"}
        self.whole({"object": "list", "data": [model], "models": [], "has_more": False})

    do_HEAD = do_GET

    def body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            data = b""
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        return json.loads(data or b"{}")

    def do_POST(self):
        body, path, model = self.body(), self.path.split("?")[0], self.server.model
        interfaces = {"/responses": "responses", "/chat/completions": "chat", "/messages": "anthropic"}
        name = next((name for end, name in interfaces.items() if path.endswith(end)), None)
        if "enerateContent" in path:
            name = "gemini"
        if not name:  # Tokens are to be counted, or something is told that nobody wants to know.
            return self.whole({"input_tokens": 100, "totalTokens": 100})
        said = list(globals()[f"read_{name}"](body))
        made, task, step = answer(model.script, said, tools_of(body))
        if task is None and "json" in body.get("generationConfig", {}).get("responseMimeType", ""):
            made = Answer(json.dumps({"reasoning": "x", "complexity_reasoning": "x", "complexity_score": 1, "model_choice": "flash"}))
        if task:
            if step == 0:
                model.tasks.append(next(text for kind, text in reversed(said) if kind == "user" and f"TASK {task}" in text))
            model.note("asked", task, step)
            calls = [text for kind, text in said if kind == "call"]
            if step and calls and calls[-1] not in FINDERS:
                model.results[step - 1] = next((text for kind, text in reversed(said) if kind == "result"), "")
                if PNG in json.dumps(body):
                    model.pictures.add(step - 1)
            made.when_said = lambda: model.note("called" if made.call else "done", task, step)
        streams = body.get("stream") or "stream" in path
        if streams:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
        try:
            last = getattr(self, f"write_{name}")(made, streams, f"{time.time_ns():x}")
            (self.event if streams else self.whole)(last)
            if streams and name == "chat":
                self.event("[DONE]")
        except OSError:
            self.close_connection = True

    # Each writes all of an answer but its last piece, which it returns.

    def write_responses(self, made, streams, uid):
        def send(kind, **fields):
            if streams:
                self.event({"type": f"response.{kind}", **fields})

        head = {"id": f"resp_{uid}", "object": "response", "created_at": 1, "model": NAME}
        text = {"type": "message", "id": f"msg_{uid}", "role": "assistant", "status": "completed"}
        send("created", response={**head, "status": "in_progress", "output": []})
        send("output_item.added", output_index=0, item={**text, "content": []})
        for word in made.words():
            send("output_text.delta", item_id=text["id"], output_index=0, content_index=0, delta=word)
        text["content"] = [{"type": "output_text", "text": made.say, "annotations": []}]
        items = [text]
        if made.call:
            call = {"type": "function_call", "id": f"fc_{uid}", "call_id": f"call_{uid}", "name": made.call, "arguments": json.dumps(made.arguments)}
            if made.space:
                call["namespace"], call["name"] = made.space
            items.append(call)
        for index, item in enumerate(items):
            send("output_item.done", output_index=index, item=item)
        used = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 18}
        whole = {**head, "status": "completed", "output": items, "usage": used}
        return {"type": "response.completed", "response": whole} if streams else whole

    def write_chat(self, made, streams, uid):
        head = {"id": f"chat_{uid}", "created": 1, "model": NAME, "object": "chat.completion.chunk" if streams else "chat.completion"}
        used = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        call = {"index": 0, "id": f"call_{uid}", "type": "function", "function": {"name": made.call, "arguments": json.dumps(made.arguments)}}
        called, end = ({"tool_calls": [call]}, "tool_calls") if made.call else ({}, "stop")

        def choice(key, value, finish=None):
            return {**head, "choices": [{"index": 0, key: value, "finish_reason": finish}]}

        for word in made.words():
            if streams:
                self.event(choice("delta", {"role": "assistant", "content": word}))
        if not streams:
            return {**choice("message", {"role": "assistant", "content": made.say, **called}, end), "usage": used}
        return {**choice("delta", called, end), "usage": used}

    def write_anthropic(self, made, streams, uid):
        head = {"id": f"msg_{uid}", "type": "message", "role": "assistant", "model": NAME, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 9}}
        tool, end = {"type": "tool_use", "id": f"toolu_{uid}", "name": made.call, "input": made.arguments}, "tool_use" if made.call else "end_turn"
        words = made.words()
        if not streams:
            parts = [{"type": "text", "text": "".join(words)}] + [tool] * bool(made.call)
            return {**head, "content": parts, "stop_reason": end}
        self.event({"type": "message_start", "message": {**head, "content": [], "stop_reason": None}})
        blocks = [({"type": "text", "text": ""}, ({"type": "text_delta", "text": word} for word in words))]
        if made.call:
            blocks.append(({**tool, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(made.arguments)}]))
        for index, (block, deltas) in enumerate(blocks):
            self.event({"type": "content_block_start", "index": index, "content_block": block})
            for delta in deltas:
                self.event({"type": "content_block_delta", "index": index, "delta": delta})
            self.event({"type": "content_block_stop", "index": index})
        self.event({"type": "message_delta", "delta": {"stop_reason": end, "stop_sequence": None}, "usage": head["usage"]})
        return {"type": "message_stop"}

    def write_gemini(self, made, streams, uid):
        def piece(parts, **more):
            content = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
            return {"candidates": [content], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}}

        call = [{"functionCall": {"name": made.call, "args": made.arguments}}] if made.call else []
        for word in made.words():
            if streams:
                self.event(piece([{"text": word}]))
        said = [{"text": "" if streams else made.say}] if not call else []
        return piece(said + call, finishReason="STOP")
