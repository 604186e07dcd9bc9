"""When certificates are valid, as read from their files."""

from __future__ import annotations

import calendar
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from collector.receive.listener.tls import Certificates
from collector.receive.listener.validity import Validity, validity_of
from tests.end_to_end.certificates import Pair, authority, have_openssl, issue

pytestmark = pytest.mark.skipif(not have_openssl(), reason="openssl is not installed")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """An authority, valid for two days."""
    return authority(tmp_path_factory.mktemp("authority"))


def told(file: Path) -> Validity:
    """What openssl says of a certificate."""
    command = ["openssl", "x509", "-noout", "-startdate", "-enddate", "-in", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    begins, ends = re.findall(r"=(.+) GMT", text)
    return Validity(
        *(calendar.timegm(time.strptime(each, "%b %d %H:%M:%S %Y")) for each in (begins, ends))
    )


def made(folder: Path, *options: str) -> Path:
    """A certificate of its own signature, with options of `openssl req`."""
    file = folder / "made.pem"
    command = ["openssl", "req", "-x509", "-subj", "/CN=a", "-nodes", "-out", str(file)]
    command += ["-keyout", str(folder / "made.key"), *options]
    subprocess.run(command, capture_output=True, check=True)
    return file


@pytest.mark.parametrize(
    ("key", "days"),
    [("rsa:2048", 90), *(("ed25519", days) for days in (1, 90, 9_000, 40_000))],
)
def test_the_times_are_those_that_openssl_reads(key: str, days: int, tmp_path: Path) -> None:
    """Both forms of times (two digits of the year up to 2049, four after) and any key are read."""
    file = made(tmp_path, "-newkey", key, "-days", str(days))
    assert validity_of(file.read_bytes()) == told(file)


def test_of_a_chain_the_one_that_ends_first_counts(signer: Pair, tmp_path: Path) -> None:
    """Keys, remarks and other certificates in the file change nothing but the earliest end."""
    leaf = issue(signer, tmp_path, "leaf")
    long = made(tmp_path, "-newkey", "ed25519", "-days", "400")
    parts = [leaf.key.read_bytes(), b"a remark\n", long.read_bytes(), leaf.cert.read_bytes()]
    first = min(told(leaf.cert), told(long), key=lambda each: each.ends)
    for order in (parts, parts[::-1]):
        assert validity_of(b"".join(order)) == first


def test_what_is_no_certificate_has_no_times(signer: Pair) -> None:
    """Cut, changed and empty files give None or times, and never an error."""
    pem = signer.cert.read_bytes()
    assert validity_of(b"") is validity_of(signer.key.read_bytes()) is None
    chance = random.Random(7)
    for _ in range(2_000):
        text = bytearray(pem)
        for _ in range(chance.randrange(1, 6)):
            text[chance.randrange(28, len(text))] = chance.randrange(256)
        validity_of(bytes(text[: chance.randrange(len(text))]))
        validity_of(bytes(text))


def test_a_renewed_certificate_is_in_use_without_a_connection(
    signer: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is the new file's from a second after the change on; one that does not match its key changes nothing."""
    monkeypatch.setattr("collector.net.watched_files.LOOK_SECONDS", 0.0)
    pair = issue(signer, tmp_path, "leaf")
    certificates = Certificates(pair.cert, pair.key)
    certificates.context()
    before = certificates.validity()
    assert before == told(pair.cert)

    other = made(tmp_path, "-newkey", "ed25519", "-days", "700")
    pair.cert.write_bytes(other.read_bytes())
    assert certificates.validity() == before
    pair.key.write_bytes((tmp_path / "made.key").read_bytes())
    assert certificates.validity() == told(other)
    renewed = certificates.renewed()
    assert renewed is not None
    assert renewed.cert == other.read_bytes()
    assert certificates.renewed() is None
