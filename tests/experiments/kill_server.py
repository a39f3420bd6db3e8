"""Runs verbs in children of one process that has imported everything, and kills them; a request a line, as JSON.

A child is killed before the n-th time that it touches a folder's files (opened for writing: right after, when the
file is there and empty), or after some seconds.
"""

import contextlib
import json
import os
import signal
import sys
import time

TOUCHING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink"}


def watch(folder, at, count):
    inside = [False]

    def hook(event, arguments):
        if inside[0]:
            return
        opened = event == "open"
        if not opened and event not in TOUCHING:
            return
        path = arguments[0]
        if not isinstance(path, str | bytes) or not os.path.abspath(os.fsdecode(path)).startswith(folder + os.sep):
            return
        if opened and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        count[0] += 1
        if count[0] == at:
            inside[0] = True
            if opened:
                os.open(path, arguments[2], 0o600)
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def child(request, told):
    count = [0]
    watch(request["folder"], request.get("at", 0), count)
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["excitor", *request["arguments"]]
    from excitor.experiments.cli import main

    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    os.write(told, json.dumps({"code": code, "touched": count[0]}).encode())
    sys.stdout.flush()
    os._exit(0)


def serve():
    import importlib

    for name in ("verbs.design", "verbs.emit", "verbs.simulate", "identification", "verbs.identify",
                 "export.export", "status", "init"):  # fmt: skip
        importlib.import_module(f"excitor.experiments.{name}")
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        reading, writing = os.pipe()
        begin = time.monotonic()
        pid = os.fork()
        if pid == 0:
            child(request, writing)
        os.close(writing)
        if "after" in request:
            time.sleep(request["after"])
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(reading) as pipe:
            told = pipe.read()
        answer = json.loads(told) if told else {"code": None, "touched": None}
        print(json.dumps(answer | {"killed": os.WIFSIGNALED(status), "seconds": time.monotonic() - begin}), flush=True)


if __name__ == "__main__":
    serve()
