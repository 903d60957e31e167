"""A little hockey league with an API, in the place of the real one: it needs no network, and plays on for ever.

All of it follows from the date: a game of today is played when today is over, and for two days after that the league
corrects its statistics. `serve()` gives the address of its API on this machine.
"""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEAMS = ("BOS", "CHI", "COL", "EDM", "MTL", "NYR", "TOR", "VAN")
NAMES = ("Andersson", "Bergeron", "Côté", "Dubois", "Ekström", "Fontaine", "Gagné", "Häkkinen", "Ivanov", "Jágr")
POSITIONS = ("C", "L", "D")
SITUATIONS = ("5on5", "powerplay")
CORRECTED_FOR = 2  # days
AHEAD = 90  # days that the schedule knows
DAY = timedelta(days=1)


@dataclass(frozen=True)
class League:
    """The league of one seed. `today` is given wherever an answer depends on it."""

    seed: int = 1
    corrected: float = 0.1  # the share of statistics that is corrected on a day

    def skaters(self) -> list[dict]:
        return [
            {"playerId": 8_470_000 + n, "name": NAMES[(n * 7 + self.seed) % len(NAMES)], "team": team, "position": role}
            for n, (team, role) in enumerate((team, role) for team in TEAMS for role in POSITIONS)
        ]

    def plays_on(self, day: date) -> bool:
        """From October to mid-April, with days off."""
        season = day.month >= 10 or (day.month, day.day) < (4, 16)
        return season and (day.month, day.day) not in {(12, 24), (12, 25), (12, 26)} and self._dice("off", day) > 0.15

    def pairings(self, day: date) -> list[dict]:
        """The games of a day as the schedule has them."""
        if not self.plays_on(day):
            return []
        teams = random.Random(f"{self.seed} {day}").sample(TEAMS, k=len(TEAMS))
        pairs = list(zip(teams[::2], teams[1::2], strict=True))[: 1 + day.toordinal() % 3]
        return [
            {
                "gameId": day.year * 1_000_000 + day.timetuple().tm_yday * 100 + n,
                "gameDate": day.isoformat(),
                "startTime": f"{day + DAY if n else day}T{'02:30' if n else '23:00'}:00Z",  # the late ones end tomorrow
                "home": home,
                "away": away,
            }
            for n, (home, away) in enumerate(pairs)
        ]

    def games(self, day: date, today: date) -> list[dict]:
        """The games of a day that are over, with their scores; of today's only the first, for the others are late."""
        over = self.pairings(day) if day < today else self.pairings(day)[:1] if day == today else []
        return [{**game, **self._score(game)} for game in over]

    def schedule(self, day: date) -> list[dict]:
        """All games from a day on, as far as the schedule goes."""
        return [game for n in range(AHEAD) for game in self.pairings(day + n * DAY)]

    def stats(self, day: date, today: date) -> list[dict]:
        """A row per player, game and situation, as the league has it today."""
        return [
            row
            for game in self.games(day, today)
            for skater in self.skaters()
            if skater["team"] in (game["home"], game["away"])
            for row in self._rows(skater, game, day, today)
        ]

    def _rows(self, skater: dict, game: dict, day: date, today: date) -> list[dict]:
        parts = [self._row(skater, game, situation, day, today) for situation in SITUATIONS]
        counted = ("goals", "assists", "shots", "iceTime")
        return [*parts, {**parts[0], "situation": "all", **{n: sum(row[n] for row in parts) for n in counted}}]

    def _row(self, skater: dict, game: dict, situation: str, day: date, today: date) -> dict:
        key = (skater["playerId"], game["gameId"], situation)
        dice = random.Random(f"{self.seed} {key}")
        row = {
            "playerId": skater["playerId"],
            "gameId": game["gameId"],
            "situation": situation,
            "gameDate": day.isoformat(),
            "team": skater["team"],
            "goals": int(dice.random() < 0.15),
            "assists": int(dice.random() < 0.25),
            "shots": dice.randrange(5),
            "iceTime": dice.randrange(120, 900),
        }
        for n in range(1, CORRECTED_FOR + 1):
            later = day + n * DAY
            if later <= today and self._dice("corrected", later, *key) < self.corrected:
                row["assists"], row["shots"] = row["assists"] + 1, row["shots"] + 1
        return row

    def _score(self, game: dict) -> dict:
        dice = random.Random(f"{self.seed} {game['gameId']}")
        return {"homeScore": dice.randrange(6), "awayScore": dice.randrange(6)}  # a tie stays one

    def _dice(self, *about: object) -> float:
        return random.Random(f"{self.seed} {about}").random()

    def answer(self, path: str, today: date) -> object | None:
        """What the API answers; None where there is no such address."""
        match path.strip("/").split("/"):
            case ["v1", "skaters"]:
                return {"skaters": self.skaters()}
            case ["v1", "games", day]:
                return {"games": self.games(date.fromisoformat(day), today)}
            case ["v1", "stats", day]:
                return {"stats": self.stats(date.fromisoformat(day), today)}
            case ["v1", "schedule", day]:
                return {"games": self.schedule(date.fromisoformat(day))}
            case _:
                return None


def serve(league: League | None = None) -> str:
    """Starts the API beside this process, and gives its address."""
    playing = league or League()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = playing.answer(self.path, datetime.now(UTC).date())
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


if __name__ == "__main__":
    print(f"The league answers at {serve()}; end it with Ctrl-C")
    threading.Event().wait()
