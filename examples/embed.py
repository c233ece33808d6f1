"""Embed lastword in ten lines: start a job, do something else, be told how it ended."""

import anyio

import lastword


async def main() -> None:
    async with lastword.open_runtime() as runtime:  # no folder: everything in memory, gone with the block
        process = await runtime.start("echo building; sleep 0.5; exit 3", background=True)
        notice = await runtime.loop.receive()
        outcome = await process.wait()
        print(f"{notice.notification.state.name.lower()} with code {outcome.exit_code}")
        print((await process.read_output()).text.text, end="")
        await notice.ack()


if __name__ == "__main__":
    anyio.run(main)
