"""Which carriers and hours are most delayed, and why book mornings?

Reads the 2013 New York departures (one line per scheduled flight) and writes
report.md and chart.svg into the current folder.

    python3 analyse.py [flights.csv.gz]        default: /inputs/flights.csv.gz

A flight without a departure delay never left: it counts as cancelled and takes
no part in the delay figures. "Late" means 15 minutes or more after schedule.
"""
import csv
import gzip
import sys
from collections import defaultdict, namedtuple
from math import ceil, floor

LATE, VERY_LATE = 15, 60    # minutes
MIN_FLIGHTS = 250           # groups with fewer departures are too noisy to rank or to draw
AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
COLOURS = {"EWR": "#D55E00", "JFK": "#0072B2", "LGA": "#009E73"}   # safe for colour-blind readers
CARRIERS = {
    "9E": "Endeavor", "AA": "American", "AS": "Alaska", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian", "MQ": "Envoy",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin America",
    "WN": "Southwest", "YV": "Mesa"}

Flight = namedtuple("Flight", "month hour carrier origin dest dep_delay arr_delay")
# cancelled: % of scheduled; median, mean, p90: minutes; late, very_late: % of flown
Stats = namedtuple("Stats", "scheduled flown cancelled median mean p90 late very_late")


def read_flights(path):
    def minutes(text):
        return None if text == "NA" else int(text)

    with gzip.open(path, "rt", encoding="ascii", newline="") as file:
        return [Flight(int(row["month"]), int(row["hour"]), row["carrier"], row["origin"],
                       row["dest"], minutes(row["dep_delay"]), minutes(row["arr_delay"]))
                for row in csv.DictReader(file)]


def quantile(values, q):
    """Quantile, interpolated linearly between the two nearest values."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * q
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summarise(flights):
    delays = [f.dep_delay for f in flights if f.dep_delay is not None]
    total, flown = len(flights), len(delays)
    return Stats(total, flown, 100 * (total - flown) / total,
                 quantile(delays, 0.5), sum(delays) / flown, quantile(delays, 0.9),
                 100 * sum(d >= LATE for d in delays) / flown,
                 100 * sum(d >= VERY_LATE for d in delays) / flown)


def group_by(flights, key):
    """Stats of every group that has enough departures, by name."""
    groups = defaultdict(list)
    for flight in flights:
        groups[key(flight)].append(flight)
    return {name: summarise(group) for name, group in sorted(groups.items())
            if sum(f.dep_delay is not None for f in group) >= MIN_FLIGHTS}


def worst_first(groups):
    return sorted(groups.items(), key=lambda item: (-item[1].late, item[0]))


def table(heading, rows):
    return "\n".join(
        [f"| {heading} | Scheduled | Cancelled | Median | Mean | 90th pct. | 15+ min | 60+ min |",
         "|:--|--:|--:|--:|--:|--:|--:|--:|"] +
        [f"| {name} | {s.scheduled:,} | {s.cancelled:.1f} % | {s.median:g} | {s.mean:.1f} | {s.p90:.0f} "
         f"| {s.late:.1f} % | {s.very_late:.1f} % |" for name, s in rows])


def marker(code, x, y):
    shape = {"EWR": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"',
             "JFK": f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"',
             "LGA": f'<path d="M{x:.1f} {y - 5.5:.1f}l5.5 9.5h-11z"'}[code]
    return f'{shape} fill="{COLOURS[code]}" stroke="#FFF"/>'


def line(code, points):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return [f'<polyline points="{path}" fill="none" stroke="{COLOURS[code]}" stroke-width="2.5"/>']


def panel(cells, field, top, height, step, title):
    """Title, grid, axis labels and one line per airport; cells: (hour, airport) -> Stats."""
    values = [getattr(stats, field) for stats in cells.values()]
    ticks = range(step * floor(min(values) / step), step * ceil(max(values) / step) + 1, step)

    def x(hour):
        return 70 + (hour - 4.5) * 45

    def y(value):
        return top + height * (ticks[-1] - value) / (ticks[-1] - ticks[0])

    out = [f'<rect x="70" y="{top}" width="{x(9.5) - 70}" height="{height}" fill="#FFF6DB"/>',
           f'<text x="70" y="{top - 14}" class="panel">{title}</text>']
    for tick in ticks:
        label, colour = str(tick).replace("-", "\u2212"), "#DDD" if tick else "#777"
        out += [f'<path d="M70 {y(tick):.1f}H{x(23.5)}" stroke="{colour}"/>',
                f'<text x="60" y="{y(tick) + 4.5:.1f}" text-anchor="end">{label}</text>']
    out += [f'<text x="{x(h)}" y="{top + height + 20}" text-anchor="middle">{h}</text>' for h in range(5, 24)]
    for code in AIRPORTS:
        points = [(x(h), y(getattr(s, field))) for (h, origin), s in cells.items() if origin == code]
        out += line(code, points) + [marker(code, *point) for point in points]
    if field == "p90":      # name the highest point
        (h, code), peak = max(cells.items(), key=lambda item: (item[1].p90, item[0]))
        out += [f'<text x="{x(h)}" y="{y(peak.p90) - 12:.1f}" text-anchor="middle" class="panel">'
                f"{AIRPORTS[code]} {h}:00, {peak.p90:.0f} min</text>"]
    return out


def chart(cells):
    legend = []
    for x, (code, name) in zip((70, 220, 370), AIRPORTS.items()):
        legend += line(code, [(x, 96), (x + 28, 96)]) + [marker(code, x + 14, 96)]
        legend += [f'<text x="{x + 36}" y="100.5">{name} ({code})</text>']
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 740" width="960" height="740" role="img">',
        "<title>Departure delay by scheduled hour and airport, New York 2013</title>",
        "<style>text{font:13px Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#444}",
        ".head{font-size:24px;font-weight:bold;fill:#111}.note{font-size:12px;fill:#666}",
        ".panel{font-size:14px;font-weight:bold;fill:#222}</style>",
        '<rect width="960" height="740" fill="#FFF"/>',
        '<text x="70" y="44" class="head">Leave early: delays build up through the day</text>',
        '<text x="70" y="68">Departure delay of flights from New York in 2013, by scheduled hour</text>',
        *legend,
        *panel(cells, "p90", 150, 290, 20,
               "The unlucky flight: one in ten leaves at least this late (90th percentile, minutes)"),
        *panel(cells, "median", 520, 130, 5,
               "The typical flight: half leave later than this (median, minutes)"),
        '<text x="80" y="172">Morning, before 10:00</text>',
        '<text x="497" y="696" text-anchor="middle">Scheduled hour of departure (local time)</text>',
        '<text x="70" y="724" class="note">Negative: ahead of schedule. Hours with fewer than '
        f"{MIN_FLIGHTS} departures at an airport are not drawn. Source: US DOT, BTS.</text>",
        "</svg>", ""])


def main():
    flights = read_flights(sys.argv[1] if len(sys.argv) > 1 else "/inputs/flights.csv.gz")
    total, hours = summarise(flights), group_by(flights, lambda f: f.hour)
    carriers = worst_first(group_by(flights, lambda f: f"{CARRIERS.get(f.carrier, '?')} ({f.carrier})"))
    origins = worst_first(group_by(flights, lambda f: f"{AIRPORTS[f.origin]} ({f.origin})"))
    routes = worst_first(group_by(flights, lambda f: f"{f.origin} to {f.dest}"))
    morning = [f for f in flights if 5 <= f.hour < 10]
    evening = [f for f in flights if f.hour >= 17]
    am, pm = summarise(morning), summarise(evening)
    (worst_hour, worst), *_, (best_hour, best) = worst_first(hours)

    def top(rows):
        return ", ".join(f"{name} {s.late:.1f} %" for name, s in rows[:3])

    def wins(key):
        """In how many groups are mornings late less often than evenings?"""
        early, late = group_by(morning, key), group_by(evening, key)
        both = early.keys() & late.keys()
        return f"{sum(early[name].late < late[name].late for name in both)} of {len(both)}"

    def recovered(group):
        """Median minutes that late flights win back before they arrive."""
        return quantile([f.dep_delay - f.arr_delay for f in group
                         if f.arr_delay is not None and f.dep_delay >= LATE], 0.5)

    facts = [
        f"Flights: {total.scheduled:,} scheduled, {total.flown:,} flown, {total.cancelled:.1f} % cancelled.",
        f"Departure delay: median {total.median:g}, mean {total.mean:.1f} min; {total.late:.1f} % late (15+ min).",
        f"Carriers most often late: {top(carriers)}.",
        f"Carriers least often late: {top(carriers[::-1])}.",
        f"Worst hour: {worst_hour}:00, {worst.late:.1f} % late; one flight in ten by {worst.p90:.0f} min or more.",
        f"Best hour: {best_hour}:00, {best.late:.1f} % late; one flight in ten by {best.p90:.0f} min or more.",
        f"Airports: {top(origins)} late.",
        f"Routes most often late: {top(routes)}.",
        f"Before 10:00: {am.late:.1f} % late, {am.very_late:.1f} % by 60+ min, {am.cancelled:.1f} % cancelled.",
        f"From 17:00: {pm.late:.1f} % late, {pm.very_late:.1f} % by 60+ min, {pm.cancelled:.1f} % cancelled.",
        f"Less often late before 10:00 than from 17:00: {wins(lambda f: f.origin)} airports, "
        f"{wins(lambda f: f.carrier)} carriers, {wins(lambda f: f.month)} months, "
        f"{wins(lambda f: (f.origin, f.dest))} routes.",
        f"Late flights win back little on the way: {recovered(morning):g} min (morning), "
        f"{recovered(evening):g} min (evening), median."]
    report = "\n\n".join([
        "# Delays of flights leaving New York, 2013",
        f"**Book a morning flight.** Before 10:00, {am.late:.0f} % of flights leave {LATE} minutes late or worse;\n"
        f"from 17:00, {pm.late:.0f} % do. A delay of an hour or more is then {pm.very_late / am.very_late:.1f} "
        "times as likely as in the morning.",
        "![Departure delay by hour and airport](chart.svg)",
        "## In short", "\n".join("- " + fact for fact in facts),
        "## Why mornings",
        "The typical flight leaves about on time at any hour; what grows is the risk of a long wait. Nor is it a\n"
        "matter of airline, place or season, as the comparison above shows. The likely cause: one late flight makes\n"
        "the next one late, and little is won back on the way. The data has no aircraft numbers to prove that.",
        "## By carrier, most often late first", table("Carrier", carriers),
        "## By scheduled hour", table("Hour", [(f"{hour}:00", s) for hour, s in hours.items()]),
        "## By airport", table("Airport", origins),
        "## The ten routes most often late", table("Route", routes[:10]),
        "Median, mean and 90th percentile are departure delays in minutes; negative is ahead of schedule.\n"
        "Cancelled is a share of scheduled flights, 15+ and 60+ min are shares of flown ones.\n"
        f"Groups with fewer than {MIN_FLIGHTS} departures are left out, also of the comparison.\n"])
    drawing = chart(group_by(flights, lambda f: (f.hour, f.origin)))
    for name, text in (("report.md", report), ("chart.svg", drawing)):
        with open(name, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    print("\n".join(facts + ["Wrote report.md and chart.svg."]))


if __name__ == "__main__":
    main()
