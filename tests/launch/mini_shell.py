"""A shell with job control and nothing else: ``mini_shell.py TERMINAL TELL WAKE COMMAND...``, three open files first.

Runs the command in the foreground of the terminal. Writes to TELL how the job stands whenever that changes: ``stopped
SIGNAL``, ``exited STATUS`` or ``killed SIGNAL``. Puts a stopped job into the foreground when something comes on WAKE.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    terminal, tell, wake = map(int, sys.argv[1:4])
    command = sys.argv[4:]
    for fd in (tell, wake):
        os.set_inheritable(fd, False)
    os.login_tty(terminal)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # as every shell does, to take the terminal back
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(command[0], command)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        if not os.WIFSTOPPED(status):
            break
        os.write(tell, f"stopped {os.WSTOPSIG(status)}\n".encode())
        os.read(wake, 100)
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
    killed = os.WIFSIGNALED(status)
    os.write(tell, (f"killed {os.WTERMSIG(status)}\n" if killed else f"exited {os.WEXITSTATUS(status)}\n").encode())


if __name__ == "__main__":
    main()
