"""A scripted agent: speaks to `wq mcp` over stdio as a client of MCP does, and does what a list of steps says.

The script is a JSON array. Each step is an object with one of
  {"list": [names]}                     the tools that the server offers
  {"call": name, "with": arguments}     one call; {"expect": members} of its result, {"refused": text in the error}
  {"each": [steps]}                     the steps once for each Claim of the assignment
  {"output": message}                   one safe output
  {"write": path, "text": text}         any file that the agent may write; {"append": ...} likewise
  {"link": path, "to": target}          a symbolic link in place of a file
  {"env": name, "text": text}           a variable for the steps after it, and an output of the agent's step
  {"exit": status}
Strings "$HANDLE", "$0", "$1", ... stand for a Claim's handle, "$RUN" for the run's id, and $RUNNER_TEMP inside of paths.
"""
import json
import os
import re
import subprocess
import sys

TEMP = os.environ["RUNNER_TEMP"]
PROMPT = os.environ.get("GH_AW_PROMPT", "")


def handles():
    if not os.path.exists(PROMPT):
        return []
    with open(PROMPT, encoding="utf-8") as prompt:
        return re.findall(r'^<work-claim handle="([^"]*)"', prompt.read(), re.MULTILINE)


class Server:
    def __init__(self):
        # What a gateway passes on, and nothing else of the job.
        names = ["PATH", "RUNNER_TEMP", "GH_AW_WORK_QUEUE_ROLE", "GH_AW_WORK_QUEUE_ENABLED"]
        self.process = subprocess.Popen(
            ["wq", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
            env={name: os.environ[name] for name in names if name in os.environ})
        self.count = 0
        hello = self.ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {},
                                        "clientInfo": {"name": "scripted", "version": "1"}})
        assert hello["result"]["serverInfo"]["name"] == "work-queue", hello
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.count += 1
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params})
        line = self.process.stdout.readline()
        assert line, "the server ended"
        answer = json.loads(line)
        assert answer["id"] == self.count, answer
        return answer

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=20) == 0


def filled(value, names):
    if isinstance(value, str):
        value = names.get(value, value)
        return value.replace("$RUNNER_TEMP", TEMP).replace("$RUN", os.environ["GITHUB_RUN_ID"])
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return value


def holds(found, expected):
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(key in found and holds(found[key], item) for key, item in expected.items())
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(holds, found, expected))
    return found == expected


def step(server, one, names):
    if "each" in one:
        for handle in handles():
            run(server, one["each"], {**names, "$HANDLE": handle})
        return
    one = filled(one, names)
    if "list" in one:
        tools = [tool["name"] for tool in server().ask("tools/list", {})["result"]["tools"]]
        assert tools == one["list"], tools
    elif "call" in one:
        answer = server().ask("tools/call", {"name": one["call"], "arguments": one.get("with", {})})
        if "refused" in one:
            assert one["refused"] in answer.get("error", {}).get("message", ""), answer
            return
        assert "result" in answer, answer
        found = json.loads(answer["result"]["content"][0]["text"])
        assert holds(found, one.get("expect", {})), found
    elif "output" in one:
        with open(os.environ["GH_AW_SAFE_OUTPUTS"], "a", encoding="utf-8") as outputs:
            outputs.write(json.dumps(one["output"]) + "\n")
    elif "write" in one or "append" in one:
        path = one.get("write") or one["append"]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if "write" in one and os.path.lexists(path):
            os.remove(path)
        with open(path, "a", encoding="utf-8") as file:
            file.write(one["text"])
    elif "link" in one:
        os.makedirs(os.path.dirname(one["link"]), exist_ok=True)
        if os.path.lexists(one["link"]):
            os.remove(one["link"])
        os.symlink(one["to"], one["link"])
    elif "env" in one:
        for file in ("GITHUB_ENV", "GITHUB_OUTPUT"):
            with open(os.environ[file], "a", encoding="utf-8") as text:
                text.write(f"{one['env']}={one['text']}\nwork_queue_origin={one['text']}\n")
    elif "exit" in one:
        sys.exit(one["exit"])
    else:
        raise AssertionError(f"no such step: {one}")


def run(server, steps, names):
    for one in steps:
        step(server, one, names)


def main():
    with open(sys.argv[1], encoding="utf-8") as script:
        steps = json.load(script)
    started = []

    def server():
        if not started:
            started.append(Server())
        return started[0]

    names = {f"${index}": handle for index, handle in enumerate(handles())}
    run(server, steps, names)
    for one in started:
        one.end()


main()
