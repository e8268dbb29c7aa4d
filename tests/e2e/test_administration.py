"""Goal: tokens, the audit log, stored queries and alerts are settled on the page as by their commands.

Method: a real browser on a running project with a webhook whose receiver is real; what the page shows is compared with
what the receiver got, with files, and with what a new token may do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
import yaml
from playwright.sync_api import BrowserContext, Page, expect
from shop_with_page import ServedProject
from watched_page import picture

from alert_receivers import HookReceiver

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def receiver() -> Iterator[HookReceiver]:
    with HookReceiver() as hook:
        yield hook


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, receiver: HookReceiver) -> Iterator[ServedProject]:
    """The starter project with a webhook that tells of changes of all_customers, and notices that do."""
    project = ServedProject.shop(tmp_path_factory.mktemp("administration") / "shop")
    hook = {"type": "webhook", "url": receiver.url, "secret": "file:secret", "views": ["all_customers"], "on": "both"}
    (project.folder / "secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    (project.folder / "sinks/hook.yaml").write_text(yaml.safe_dump(hook))
    (project.folder / "sinks/tell.yaml").write_text("type: page\nviews: [all_customers]\n")
    project.start()
    try:
        project.begin_anew()
        yield project
    finally:
        project.stop()


def test_make_a_token_use_it_and_revoke_it(page: Page, shop: ServedProject) -> None:
    page.goto("/tokens")
    expect(page.get_by_role("row", name="owner")).to_contain_text("admin")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("reports")
    page.get_by_role("radio", name="editor").check()
    page.get_by_label("Reaches").fill("revenue\nall_*")
    page.get_by_label("May do more to").fill("operator:revenue")
    page.get_by_label("Lives").select_option("30 days")
    picture(page, "token_new")
    page.get_by_role("button", name="Make it").click()
    shown = page.get_by_role("dialog", name="The token reports")
    token = shown.get_by_label("token", exact=True).input_value()
    picture(page, "token_shown")
    shown.get_by_role("button", name="I have it").click()
    row = page.get_by_role("row", name="reports")
    for told in ("editor", "revenue", "all_*", "live", "never"):
        expect(row).to_contain_text(told)
    assert token not in page.content()
    client = httpx.Client(base_url=f"{shop.url}/api", headers={"Authorization": f"Bearer {token}"}, timeout=30)
    with client:
        me = {"name": "reports", "role": "editor", "only": ["revenue", "all_*"], "grants": ["operator:revenue"]}
        assert client.get("/me").json() == me
        assert client.get("/views/by_day").status_code == 404
        page.reload()
        expect(row).not_to_contain_text("never")  # it was used
        picture(page, "tokens")
        row.get_by_role("button", name="Revoke reports").click()
        page.get_by_role("dialog").get_by_role("button", name="Keep").click()
        row.get_by_role("button", name="Revoke reports").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("status").filter(has_text="reports opens nothing any more")).to_be_visible()
        expect(row).to_have_count(0)
        assert client.get("/me").status_code == 401
    page.get_by_label("also those that are over").check()
    expect(row).to_contain_text("revoked")


def test_read_the_audit_log(page: Page, shop: ServedProject) -> None:
    owner = {"Authorization": f"Bearer {shop.token}"}
    with httpx.Client(base_url=f"{shop.url}/api", headers=owner, timeout=30) as client:
        for _ in range(3):
            for verb in ("pause", "resume"):
                client.post(f"/sinks/local/{verb}").raise_for_status()
        for number in range(60):
            client.post("/queries", json={"name": "!", "view": "revenue", "query": f"{number}"})
            client.delete(f"/tokens/none{number}")
        client.post("/tokens", json={"name": "newest"}).raise_for_status()
        entries = client.get("/audit?limit=10000").json()
    page.goto("/audit")
    rows = page.get_by_role("region", name="entries, newest first").locator("tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.filter(has_text="name=newest role=viewer")).to_have_count(2)  # begun and done
    expect(page.get_by_text(re.compile(r"The chain is sound: [\d,]+ entries as written"))).to_be_visible()
    picture(page, "audit_log")
    page.get_by_role("button", name="Older").click()
    expect(rows.nth(min(200, len(entries)) - 1)).to_be_visible()  # and those that come meanwhile
    numbers = [int(text.replace(",", "")) for text in rows.locator("td:first-child").all_inner_texts()]
    assert numbers == list(range(numbers[0], numbers[-1] - 1, -1))
    page.get_by_label("action").fill("sink_pause")
    page.keyboard.press("Enter")
    page.get_by_label("outcome").select_option("done")
    expect(rows).to_have_count(3)
    paused = [e for e in entries if (e["action"], e["outcome"]) == ("sink_pause", "done")]
    told = [text.replace(",", "") for text in rows.locator("td:first-child").all_inner_texts()]
    assert told == [str(e["number"]) for e in reversed(paused)]
    assert "action=sink_pause" in page.url and "outcome=done" in page.url
    log = next((shop.folder / ".headrace/audit").glob("*.log"))
    text = log.read_text()
    log.write_text(text.replace("sink_pause", "sink_pausE", 1))
    page.get_by_role("button", name="Check again").click()
    first = next(e["number"] for e in entries if e["action"] == "sink_pause")
    expect(page.get_by_text(f"Entry {first:,} is not as it was written")).to_be_visible()
    log.write_text(text)


def test_store_a_query_and_watch_what_it_matches(page: Page, shop: ServedProject) -> None:
    page.goto("/queries")
    expect(page.get_by_text("No stored query yet.")).to_be_visible()
    page.get_by_role("button", name="New query").click()
    page.get_by_label("Name").fill("north")
    page.get_by_label("View", exact=True).select_option("all_customers")
    page.get_by_label("Query", exact=True).fill("region:north")
    page.get_by_role("button", name="Store").click()
    file = shop.folder / "searches/north.yaml"
    expect(page.get_by_role("row", name="north")).to_contain_text("region:north")
    assert yaml.safe_load(file.read_text()) == {"view": "all_customers", "query": "region:north"}
    (shop.folder / "searches/broken.yaml").write_text("view: all_customers\n")
    page.reload()
    expect(page.get_by_text("'query' is missing")).to_be_visible()
    picture(page, "queries")
    page.get_by_role("button", name="Remove broken").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("'query' is missing")).to_have_count(0)

    page.get_by_role("link", name="north").click()
    matched = page.get_by_role("region", name="rows that north matches").locator("tbody tr:not(.space)")
    expect(matched).to_have_count(1)
    expect(matched).to_contain_text("Ada")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    shop.push(customers={"upsert": [{"id": 3, "name": "Di", "region": "north"}]})
    expect(matched).to_have_count(2)  # it comes by itself
    shop.push(customers={"delete": [{"id": 1}]})
    expect(matched).to_have_count(1)
    expect(matched).to_contain_text("Di")
    picture(page, "query")

    page.get_by_role("link", name="Feed", exact=True).click()
    letters = page.get_by_role("list", name="transactions, newest first").locator("> li")
    expect(letters.first.locator(".glance")).to_contain_text("Ada")  # who has gone last
    page.wait_for_load_state("networkidle")
    held = letters.count()
    shop.push(
        customers={"upsert": [{"id": 4, "name": "Eve", "region": "north"}, {"id": 5, "name": "Fay", "region": "east"}]}
    )
    expect(letters).to_have_count(held + 1)  # it comes by itself
    shop.push(customers={"upsert": [{"id": 4, "name": "Eve", "region": "east"}]})  # she ceases to match
    expect(letters).to_have_count(held + 2)
    letters.first.get_by_role("button").click()
    expect(letters.first.locator(".change")).to_have_text([re.compile("goes.*Eve.*north")])
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        picture(page, f"query_feed_{theme}")
    page.get_by_label("find transactions with a text").fill("eve")
    expect(letters).to_have_count(2)
    expect(page.get_by_text("all that are kept are looked through")).to_be_visible()
    page.get_by_label("find transactions with a text").fill("")
    before = int(letters.nth(1).locator("strong").inner_text().replace(",", "")) - 1
    page.get_by_label("commit or time").fill(str(before))
    page.get_by_role("button", name="Jump", exact=True).click()
    expect(letters).to_have_count(held)
    page.goto("/feeds")
    row = page.get_by_role("row", name="north")
    expect(row).to_contain_text("query of all_customers")
    picture(page, "feeds_with_a_query")
    row.get_by_role("link", name="north").click()
    page.get_by_role("link", name="What it matches now").click()

    page.get_by_role("link", name="All queries").click()
    page.get_by_role("button", name="Edit north").click()
    page.get_by_label("Query", exact=True).fill("region:south")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("row", name="north")).to_contain_text("region:south")
    page.get_by_role("link", name="north").click()
    expect(matched).to_contain_text("Bo")
    page.goto("/queries")
    page.get_by_role("button", name="Remove north").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No stored query yet.")).to_be_visible()
    assert not file.exists()


def test_notices_tell_what_happens_in_a_view(page: Page, shop: ServedProject) -> None:
    link = page.get_by_role("navigation", name="pages").get_by_role("link", name="Notices")
    listed = page.get_by_role("list", name="notices, newest first").get_by_role("listitem")
    page.goto("/notices")
    expect(listed.first).to_contain_text("all_customers")  # what the shop began with
    page.goto("/views")
    expect(page.get_by_role("row", name="all_customers")).to_be_visible()
    expect(link).not_to_contain_text("unread")
    shop.push(customers={"upsert": [{"id": 5, "name": "<b>Eve</b>", "region": "west"}]})
    told = page.get_by_role("status", name="notices as they come")
    expect(told).to_contain_text("all_customers 1 row entered")
    expect(link).to_contain_text("1 unread")
    picture(page, "notice")
    told.get_by_role("link").click()
    expect(listed.first).to_contain_text("1 row entered")
    expect(listed.first).to_contain_text("<b>Eve</b>")
    expect(listed.first).to_have_class(re.compile("new"))
    expect(link).not_to_contain_text("unread")
    shop.push(customers={"upsert": [{"id": 5, "name": "Eve", "region": "east"}]})
    shop.push(customers={"delete": [{"id": 5}]})
    expect(listed.first).to_contain_text("1 row left")
    expect(listed.nth(1)).to_contain_text("1 row changed")
    picture(page, "notices")
    count = listed.count()
    page.reload()
    expect(listed).to_have_count(count)  # none twice
    expect(link).not_to_contain_text("unread")


def test_what_is_refused_is_told_where_it_was_asked(logged_in: BrowserContext) -> None:
    page = logged_in.new_page()
    page.goto("/tokens")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("owner")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("access.invalid")
    page.goto("/queries")
    page.get_by_role("button", name="New query").click()
    page.get_by_label("Name").fill("north")
    page.get_by_label("View", exact=True).select_option("all_customers")
    page.get_by_label("Query", exact=True).fill("region:(")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("search.query")
    page.goto("/queries/none")
    expect(page.get_by_role("alert")).to_contain_text("search.unknown")
    page.close()


def test_settle_dead_letters(page: Page, shop: ServedProject, receiver: HookReceiver) -> None:
    shop.begin_anew()
    before = len(receiver.requests)
    receiver.answers += [(400, {}, "not that"), 404]
    for name in ("Ed", "Flo"):
        shop.wait(shop.push(customers={"upsert": [{"id": 7, "name": name, "region": "east"}]}))
    page.goto("/alerts")
    letters = page.get_by_role("list", name="2 dead letters").get_by_role("listitem")
    expect(letters).to_have_count(2)
    expect(letters.first).to_contain_text("HTTP 400: not that")
    expect(letters.first).to_contain_text("1 row of all_customers")
    sink = page.get_by_role("row", name="hook")
    expect(sink).to_contain_text("running")
    expect(sink.get_by_role("cell").last).to_have_text("2")
    picture(page, "alerts")
    letters.first.get_by_role("button", name="Show").click()
    expect(page.get_by_role("dialog")).to_contain_text('"name": "Ed"')
    picture(page, "alert_letter")
    page.keyboard.press("Escape")
    letters.first.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("list", name="1 dead letter").get_by_role("listitem")).to_contain_text("HTTP 404")
    expect(sink.get_by_role("cell").nth(3)).to_have_text("0")
    refused, sent = receiver.requests[before], receiver.requests[-1]
    assert (sent.id, sent.body) == (refused.id, refused.body)
    page.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop").click()
    expect(page.get_by_text("There are no dead letters.")).to_be_visible()

    receiver.usual = 503  # it is down: tried again, and again
    shop.push(customers={"upsert": [{"id": 7, "name": "Gus", "region": "east"}]})
    expect(sink.get_by_role("cell").nth(4)).to_have_text(re.compile("^[2-9]$"))
    expect(page.get_by_text("it is sent again in")).to_be_visible()
    picture(page, "alerts_down")
    receiver.usual = 204
    expect(sink.get_by_role("cell").nth(4)).to_have_text("0")
