"""A real MCP client: lists the tools of a server and calls each. Prints one JSON object."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    binary, calls = sys.argv[1], json.loads(sys.argv[2])
    names = ["GH_AW_WORK_QUEUE_ROLE", "RUNNER_TEMP", "GH_AW_WORK_QUEUE_SNAPSHOT"]
    server = StdioServerParameters(command=binary, args=["mcp"], env={name: os.environ[name] for name in names})
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        await session.send_ping()
        listed = await session.list_tools()
        answers = []
        for name, arguments in calls:
            try:
                result = await session.call_tool(name, arguments)
                text = result.content[0].text
                answers.append({"name": name, "answer": json.loads(text)})
            except Exception as error:  # the client's own class for a JSON-RPC error differs by version
                answers.append({"name": name, "error": str(error)})
        print(json.dumps({"tools": [tool.name for tool in listed.tools], "answers": answers}))


asyncio.run(main())
