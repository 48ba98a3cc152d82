"""The built site in a real browser, opened from disk: Debian's Chromium, driven by playwright."""

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from docs.make import fragments, recording
from labs.catalog import LABS
from labs.harness.limits import ROOT

# One browser and one build for all of them, where tests run side by side.

CHROMIUM = shutil.which("chromium")
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).with_suffix(".html").as_posix()
    for path in DOCS.rglob("*.md")
    if path.relative_to(DOCS).parts[0] not in ("fragments", "recorded", "make") and not path.name.startswith("_")
)
SCREENS = {"phone": (390, 844), "desktop": (1280, 900)}
SCHEMES = ("light", "dark")
OTHER_MESSAGES = "reference/other-messages.html"
QUERY = "[data-md-component=search-query]"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, with every check of mkdocs on."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "docs.make", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail("REQUIRE_BROWSER is set, and there is no chromium")
        pytest.skip("there is no chromium here (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        # Everything in it is ours; where the tests run as root, chromium has no sandbox to offer.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Visit:
    """A page in a browser, and all that went wrong on it."""

    def __init__(self, context: BrowserContext, home: str) -> None:
        self.page: Page = context.new_page()
        self.home = home
        self.wrong: list[str] = []
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("requestfailed", lambda request: self.wrong.append(f"failed: {request.url}"))
        self.page.on("request", lambda request: self.wrong.append(request.url) if self.foreign(request.url) else None)

    def foreign(self, url: str) -> bool:
        return not url.startswith((self.home, "data:", "blob:", "about:"))

    def open(self, name: str) -> Page:
        self.wrong.clear()
        self.page.goto(f"{self.home}/{name}", wait_until="load")
        return self.page

    def search(self, words: str) -> list[str]:
        """The pages that the search finds, best first, when somebody pastes these words."""
        page = self.open("index.html")
        page.click(QUERY)
        page.keyboard.insert_text(words)
        return self.found()

    def found(self) -> list[str]:
        page = self.page
        page.wait_for_selector(".md-search-result__link", state="attached")
        links = page.eval_on_selector_all(".md-search-result__link", "links => links.map(link => link.href)")
        return [link.removeprefix(f"{self.home}/").partition("?")[0].partition("#")[0] for link in links]


@pytest.fixture(scope="session")
def visits(site: Path, browser: Browser) -> dict[tuple[str, str], Visit]:
    """One page for each screen and scheme, for all tests."""
    made = {}
    for screen, (width, height) in SCREENS.items():
        for scheme in SCHEMES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            made[screen, scheme] = Visit(context, f"file://{site}")
    return made


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(visits: dict[tuple[str, str], Visit], name: str, screen: str, scheme: str) -> None:
    """No error, no failed or foreign request, nothing to scroll sideways, every image there and described."""
    visit = visits[screen, scheme]
    page = visit.open(name)
    assert visit.wrong == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("[...document.images].filter(image => !image.naturalWidth || !image.alt).length") == 0
    pictures = page.locator(".picture > svg")
    for number in range(pictures.count()):
        assert pictures.nth(number).get_attribute("aria-label")
        box = pictures.nth(number).bounding_box()
        assert box and box["width"] > 300 and box["height"] > 100
    dark = page.evaluate("document.body.dataset.mdColorScheme") == "slate"
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_it(visits: dict[tuple[str, str], Visit], name: str) -> None:
    """axe-core finds nothing serious or critical, on a telephone in the dark and on a desk in the light."""
    for screen, scheme in (("phone", "dark"), ("desktop", "light")):
        page = visits[screen, scheme].open(name)
        page.evaluate("document.querySelectorAll('details').forEach(folded => { folded.open = true })")
        found = Axe().run(page).response["violations"]
        serious = [
            (one["id"], [node["target"] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []


def pasted(text: str) -> str:
    """The message as it would be in somebody else's job: other numbers, other names, another place."""
    other = re.sub(r"\d+", lambda number: str(int(number[0]) + 7001), text)
    other = re.sub(r"make_transforms|freeze_result|make_collate", "train_resnet", other)
    return f'  File "/home/me/project/train.py", line 312, in main\n{other}'


MESSAGES = [
    pytest.param(message["text"], id=f"{name}: {message['text'][:50]}")
    for name, lab in LABS.items()
    if (DOCS / "labs" / f"{name}.md").exists()
    for message in recording.load(lab)["messages"]
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_pasted_message_finds_its_lab(visits: dict[tuple[str, str], Visit], message: str) -> None:
    """First of all that is found is the page of a lab that says it, or the one with its other causes."""
    found = visits["desktop", "light"].search(pasted(message))
    assert found[0] in places(message)
    assert visits["desktop", "light"].wrong == []


def places(message: str) -> set[str]:
    """Where a message is explained: the labs that say it, or quote it, and the page of those that are no lab's own."""
    shape = recording.shape(message)
    said_by = {
        f"labs/{name}.html"
        for name, lab in LABS.items()
        if shape in [recording.shape(one["text"]) for one in recording.load(lab)["messages"]]
        or message in (DOCS / "labs" / f"{name}.md").read_text()
    }
    return said_by | {OTHER_MESSAGES for text, *_ in fragments.others() if recording.shape(text) == shape}


@pytest.mark.parametrize("message", [pytest.param(text, id=anchor) for text, _, anchor in fragments.others()])
def test_a_pasted_message_of_no_lab_is_found_too(visits: dict[tuple[str, str], Visit], message: str) -> None:
    """First of all, on the page of such messages, unless a lab says it."""
    assert visits["desktop", "light"].search(pasted(message))[0] in places(message)


def test_a_message_in_a_link_is_searched_for_as_if_pasted(visits: dict[tuple[str, str], Visit]) -> None:
    """Without what is no word: a dash would mean "not"."""
    visit = visits["desktop", "light"]
    message = next(one["text"] for one in recording.load(LABS["fds"])["messages"])
    visit.open(f"index.html?q={quote(pasted(message))}")
    assert visit.found()[0] == "labs/fds.html"
    assert not set(visit.page.input_value(QUERY)) & set("`-_.()/\"'0123456789")
    assert visit.wrong == []


def test_labels_of_tabs_are_words_in_the_search(site: Path) -> None:
    """Not one word of them all."""
    index = (site / "search" / "search_index.js").read_text()
    assert "Broken Fixed Diff" in index and "BrokenFixed" not in index


def test_the_search_works_from_a_server_too(site: Path, browser: Browser) -> None:
    """There the theme starts a worker of its own."""
    handler = functools.partial(Silent, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        visit = Visit(browser.new_context(), f"http://127.0.0.1:{server.server_port}")
        assert (
            visit.search("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error.")[0]
            == "labs/shm.html"
        )
        assert visit.wrong == []
        visit.page.context.close()
        server.shutdown()


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def test_tabs_work_by_keyboard(visits: dict[tuple[str, str], Visit]) -> None:
    """The arrow keys go from the broken program to the fixed one."""
    page = visits["desktop", "light"].open("labs/shm.html#our-solution")
    tabs = page.locator(".tabbed-set").first
    tabs.locator("input").first.focus()
    assert tabs.locator(".tabbed-block").first.is_visible() and not tabs.locator(".tabbed-block").nth(1).is_visible()
    page.keyboard.press("ArrowRight")
    assert tabs.locator(".tabbed-block").nth(1).is_visible() and not tabs.locator(".tabbed-block").first.is_visible()


def test_folds_open_by_keyboard(visits: dict[tuple[str, str], Visit]) -> None:
    """A hint is closed until somebody asks for it, and Enter asks."""
    page = visits["phone", "light"].open("labs/shm.html")
    hint = page.locator("details.tip").first
    assert not hint.evaluate("folded => folded.open")
    hint.locator("summary").focus()
    page.keyboard.press("Enter")
    assert hint.evaluate("folded => folded.open")


FOLDED = ("what-you-see", "what-torch-says-word-for-word", "the-evidence", "our-solution")


@pytest.fixture(params=[True, False], ids=["scripts", "no scripts"])
def a_lab(site: Path, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A visitor whose browser runs scripts, and one whose browser does not."""
    context = browser.new_context(java_script_enabled=request.param, viewport={"width": 1280, "height": 900})
    yield Visit(context, f"file://{site}/labs")
    context.close()


def test_a_prediction_comes_before_its_answer(a_lab: Visit) -> None:
    """What is seen, and the solution, are folded until somebody asks; Enter asks."""
    page = a_lab.open("shm.html")
    assert [name for name in FOLDED if page.locator(f"#{name}").is_visible()] == []
    page.locator("summary", has_text="I have made my prediction").focus()
    page.keyboard.press("Enter")
    assert [name for name in FOLDED if page.locator(f"#{name}").is_visible()] == list(FOLDED[:-1])


@pytest.mark.parametrize("name", FOLDED)
def test_a_link_into_a_fold_opens_it(a_lab: Visit, name: str) -> None:
    """From the search, from another page, and from the page itself."""
    page = a_lab.open(f"shm.html#{name}")
    target = page.locator(f"#{name}")
    target.wait_for(state="visible")
    box = target.bounding_box()
    assert box and 0 <= box["y"] < 900
    a_lab.open("pickle.html")
    page = a_lab.open("shm.html")
    page.locator(f".md-content a[href='#{name}'], .md-sidebar--secondary a[href='#{name}']").first.click()
    target.wait_for(state="visible")


def test_on_paper_nothing_is_folded(a_lab: Visit) -> None:
    """Who prints a page wants all of it."""
    page = a_lab.open("shm.html")
    page.emulate_media(media="print")
    for name in FOLDED:
        page.locator(f"#{name}").wait_for(state="visible")


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("lab", LABS)
def test_the_program_to_predict_from_is_not_cut_off(
    visits: dict[tuple[str, str], Visit], lab: str, screen: str
) -> None:
    """A line that is too long for the screen goes on in the next."""
    page = visits[screen, "light"].open(f"labs/{lab}.html")
    assert page.locator(".program code").count() == 1
    assert page.locator(".program code").evaluate("code => code.scrollWidth <= code.clientWidth")


def test_the_colours_can_be_changed(visits: dict[tuple[str, str], Visit]) -> None:
    """Whatever the system says, by a button that has a name."""
    page = visits["desktop", "light"].open("index.html")
    page.locator("label[title='Switch to dark']").click()
    assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_the_cheat_sheet_is_one_page_on_paper(visits: dict[tuple[str, str], Visit], paper: str) -> None:
    """Black on white from a dark screen, too; in larger letters it would be two, and another page is more."""
    page = visits["desktop", "dark"].open("workshop/cheat-sheet.html")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.sheet td')).color") == "rgb(0, 0, 0)"
    assert sheets(page, paper) == 1
    page.add_style_tag(content=".sheet td { font-size: 14pt }")
    assert sheets(page, paper) == 2
    assert sheets(visits["desktop", "dark"].open("workshop/teach.html"), paper) > 2
    page.emulate_media(media="screen")


def sheets(page: Page, paper: str) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper)))
