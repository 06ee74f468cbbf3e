"""What `Agent.stats` says of what carries the bytes, and of how many there were."""

import dataclasses
import json
import typing

import pytest

import tcpx
from conftest import PATIENCE
from test_errors import OfGpu
from tcpx import stats


def test_what_carries_the_bytes_of_a_peer_is_said_at_both_ends(pair):
    here, there = pair
    there.connect("here").wait(PATIENCE)
    (of_there,) = here.stats().peer("there")
    (of_here,) = there.stats().peer("here")
    for end, other in ((of_there.transport, of_here.transport), (of_here.transport, of_there.transport)):
        assert end.name == "software" and end.encrypted is False
        assert end.local.address == "127.0.0.1" and end.remote.address.startswith("127.0.0.1:")
        assert end.local.nics == other.remote.nics and end.local.nics[0].name == "lo"
        assert end.channels >= 1 and end.chunk_bytes == of_there.chunk_bytes
        assert (end.zero_copy, end.one_sided) == ("no", "control link")
    assert of_there.state == "up" and not of_there.link_encrypted
    (session,) = here.stats().sessions
    assert (session.name, session.device, session.transport) == ("here", "host", "software")
    assert here.stats().peer("nowhere") == ()


def test_an_encrypted_peer_is_said_to_be_one(agents):
    here, there = agents("here", encryption="require"), agents("there", encryption="require")
    here.connect(here.add(there.address)).wait(PATIENCE)
    (peer,) = here.stats().peer("there")
    assert peer.transport.encrypted is True and peer.link_encrypted
    assert here.stats().sessions[0].encryption == "require"


def test_bytes_are_counted_each_way_and_rates_are_between_two_moments(pair):
    here, there = pair
    before = here.stats()
    descriptor = there.export(bytearray(1 << 20)).descriptor
    here.write(bytes(1 << 20), descriptor).wait(PATIENCE)
    here.read(bytearray(1 << 19), tcpx.Remote(descriptor)[: 1 << 19]).wait(PATIENCE)
    send = here.send("there", bytes(1 << 18), tag=1)
    there.recv("here", bytearray(1 << 18), tag=1).wait(PATIENCE)
    send.wait(PATIENCE)
    after = here.stats()
    (peer,) = after.peer("there")
    assert peer.sent_bytes == (1 << 20) + (1 << 18) and peer.received_bytes == 1 << 19
    (served,) = there.stats().peer("here")
    assert served.received_bytes == peer.sent_bytes and served.one_sided.writes_served == 1
    (rate,) = after.rates(before)
    seconds = after.time_s - before.time_s
    assert (rate.device, rate.peer) == ("host", "there")
    assert rate.sent_gb_per_s == pytest.approx(peer.sent_bytes / seconds / 1e9)
    assert rate.received_gb_per_s == pytest.approx(peer.received_bytes / seconds / 1e9)
    assert after.rates(after) == () and before.rates(after) == ()


def test_a_peer_that_has_come_again_has_no_rate(pair):
    here, there = pair
    here.write(bytes(64), there.export(bytearray(64)).descriptor).wait(PATIENCE)
    before = here.stats()
    here.disconnect("there")
    here.connect("there").wait(PATIENCE)
    after = here.stats()
    assert after.peer("there")[0].sent_bytes == 0 and after.rates(before) == ()


def test_each_device_has_a_report_and_a_peer_has_one_for_each_pair(agents):
    here, there = agents("here", emulated_gpus=1), agents("there/gpus", emulated_gpus=1)
    here.add(there.address)
    remote = there.export(OfGpu(bytearray(64)), stream=-1).descriptor
    here.write(OfGpu(bytearray(64)), remote, stream=-1).wait(PATIENCE)
    here.write(bytes(64), remote, stream=-1).wait(PATIENCE)
    taken = here.stats()
    assert [session.device for session in taken.sessions] == ["host", "gpu0"]
    assert sorted(peer.sent_bytes for peer in taken.peer("there/gpus")) == [0, 64, 64]
    assert {peer.name for peer in taken.peer("there/gpus")} == {"there/gpus", "there/gpus/gpu0"}
    assert taken.peer("there") == ()


def same_members(kind, value):
    """Fails where JSON has other members than the dataclass for it."""
    (kind, *_) = [it for it in typing.get_args(kind) if it is not type(None)] or [kind]
    if not dataclasses.is_dataclass(kind) or value is None:
        return
    for each in value if isinstance(value, list) else [value]:
        hints = typing.get_type_hints(kind)
        assert hints.keys() == each.keys(), kind.__name__
        for name, member in hints.items():
            same_members(member, each[name])


def test_the_classes_have_every_member_of_the_reports_and_no_other(agents):
    here, there = agents("here", link_bytes=0), agents("there", link_bytes=0)
    here.add(there.address)
    here.write(bytes(4 << 20), there.export(bytearray(4 << 20)).descriptor).wait(PATIENCE)
    (report,) = json.loads(here._session.stats())
    (peer,) = report["peers"]
    assert peer["transport"] and report["staging"] and peer["channels"] and report["nics"]
    same_members(tuple[stats.SessionReport, ...], [report])
    assert here.stats().peer("there")[0].sent_bytes == 4 << 20
    # What all has gone well without, and what a later version may say.
    report["alarms"] = [{"id": "TCPX-302", "title": "a NIC is down", "count": 2}]
    report["later"] = peer["later"] = 1
    (session,) = stats.AgentStats.read(json.dumps([report])).sessions
    assert session.nics[0].nic == "lo" and session.alarms == (stats.AlarmReport("TCPX-302", "a NIC is down", 2),)
    with pytest.raises(dataclasses.FrozenInstanceError):
        session.name = "other"


def test_statistics_outlive_their_agent(pair):
    here, there = pair
    here.write(bytes(64), there.export(bytearray(64)).descriptor).wait(PATIENCE)
    here.close()
    (session,) = here.stats().sessions
    assert session.total.one_sided.link_bytes_sent == 64
