"""Many rollouts: tasks by seeds, a sandbox a thread, each result written when it ends."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace.export import SpanExporter

from harness.agents.kinds import AgentKind
from harness.bench.results_folder import ResultsFolder
from harness.rollout.clock import LiveClock, RecordedClock
from harness.rollout.executor import Bounds, Executor, RolloutJudges
from harness.rollout.record import Rollout
from harness.sandbox.process import Sandbox, SandboxKind
from harness.scaffold.scaffold import Scaffold
from harness.snapshots.toolbox import LiveToolbox, Miss, OfflineToolbox, ResultSnapshot, Toolbox
from harness.tasks.read import BenchTask

__all__ = ["Bench", "RunLimits"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits from the command line; None where the task's own hold."""

    max_steps: int | None = None
    timeout: float | None = None
    call_timeout: float | None = None
    stall: float | None = None

    def of(self, task: BenchTask) -> Bounds:
        """The bounds of a task's rollouts."""
        own = task.document.execution
        return Bounds(
            self.max_steps or own.max_steps,
            self.timeout or own.timeout,
            self.call_timeout or own.call_timeout,
            self.stall or own.stall,
        )


@dataclass(slots=True, kw_only=True)
class Bench:
    """One run of `offrails harness run`."""

    agent: AgentKind
    scaffold: Scaffold
    results: ResultsFolder
    sandbox: SandboxKind
    limits: RunLimits = RunLimits()
    guard: str = ""
    exporter: Callable[[], SpanExporter | None] = lambda: None
    """Makes what sends the spans of one thread."""
    price: Callable[[int, int], float | None] = lambda _tokens_in, _tokens_out: None
    judges: RolloutJudges | None = None
    recording: ResultSnapshot | None = None
    offline: ResultSnapshot | None = None
    miss: Miss = "fail"
    nonce: str = field(default_factory=lambda: secrets.token_hex(4))
    """Part of the sessions' ids that no other live run has."""
    _local: threading.local = field(default_factory=threading.local)
    _made: list[LiveToolbox] = field(default_factory=list)

    def run(
        self, tasks: Sequence[BenchTask], seeds: Sequence[int], jobs: int
    ) -> Iterator[Rollout]:
        """Runs what is not done yet, and gives each rollout when it ends. In the end the files are sorted."""
        missing = [
            (task, seed)
            for task in tasks
            for seed in seeds
            if (task.name, self.agent.name, seed) not in self.results.done
        ]
        try:
            with ThreadPoolExecutor(jobs) as pool:
                futures: list[Future[Rollout]] = [
                    pool.submit(self._rollout, task, seed) for task, seed in missing
                ]
                try:
                    for future in as_completed(futures):
                        yield future.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        finally:
            for toolbox in self._made:
                toolbox.close()
        self.results.sort()

    def _rollout(self, task: BenchTask, seed: int) -> Rollout:
        toolbox, exporter = self._of_this_thread(task)
        name = f"{task.name}|{self.agent.name}|{seed}"
        chance = random.Random(name)  # noqa: S311 - faults, not secrets
        session = f"{task.name}/{self.agent.name}/{seed}"
        executor = Executor(
            task=task,
            agent=self.agent.make(task, seed, chance),
            agent_name=self.agent.name,
            seed=seed,
            scaffold=self.scaffold,
            toolbox=toolbox,
            clock=LiveClock() if self.offline is None else RecordedClock(),
            bounds=self.limits.of(task),
            sandbox=self.sandbox if self._uses_sandbox else "none",
            session=session if self.offline is not None else f"{session}/{self.nonce}",
            offline=self.offline is not None,
            guard=self.guard,
            exporter=exporter,
            price=self.price,
            judges=self.judges,
        )
        finished = executor.run()
        self.results.add(finished)
        return finished.rollout

    @property
    def _uses_sandbox(self) -> bool:
        return self.offline is None or self.miss == "live"

    def _of_this_thread(self, task: BenchTask) -> tuple[Toolbox, SpanExporter | None]:
        """The sandbox and the sender of this thread."""
        found: Any = getattr(self._local, "found", None)
        if found is None:
            live = None
            if self._uses_sandbox:
                packages = task.document.environment.packages
                sandbox = Sandbox(self.sandbox, task.module.parent, packages=packages)
                live = LiveToolbox(sandbox, self.recording)
                self._made.append(live)
            toolbox = (
                live if self.offline is None else OfflineToolbox(self.offline, self.miss, live)
            )
            found = self._local.found = toolbox, self.exporter()
        return found  # type: ignore[no-any-return]
