//! The tables of clients that do not keep up.

use std::fmt::{Display, Write};

use crate::bench::{Results, Table};
use crate::laggards::{Beside, Observed};
use crate::scenario::Pace;
use crate::tables::{number, table_of};

/// The tables of clients beside the others that do not keep up, two for each pace.
#[must_use]
pub fn laggards_tables(results: &Results) -> String {
    let mut text = "The same pace twice on one daemon: ordinary clients alone, then beside clients that do not keep up and do not \
        count. One reads 1 KiB a second, one never reads, and one, with WebSocket, asks for a window of 100 events and never \
        acknowledges; each comes back a second after it finds its connection ended, the one that never reads after 45 \
        seconds. Ratios are to the run without them; at most 1.10 is met, when nothing is lost, comes twice or out of order. \
        Memory is resident, each minute or each tenth of a shorter run, and flat when it never exceeds the first look of its \
        run by more than a tenth.\n"
        .to_owned();
    for table in &results.laggards {
        let Pace { clients, events_per_second, batch_events } = table.scenario;
        // Writing to a text cannot fail, here and below.
        let _ = write!(
            text,
            "\n### {clients} clients and laggards, {events_per_second} events/s, {batch_events} at once\n\n"
        );
        let head = "server | events/s, without and with | p50 ms | ratio | p99 ms | ratio | lost | twice | out of order \
            | others unaffected | memory flat";
        table_of(&mut text, head, table, |entry| entry.outcome.measurements().first().map_or(vec![], cells));
        details(&mut text, table);
    }
    text
}

fn cells(one: &Beside) -> Vec<String> {
    let both = |figure: fn(&Observed) -> f64| {
        format!("{} → {}", number(Some(figure(&one.alone))), number(Some(figure(&one.beside))))
    };
    let [p50, p99] = one.latency_ratios();
    let verdict = |is_met: bool| if is_met { "met" } else { "**missed**" }.to_owned();
    vec![
        format!("{:.0} → {:.0}", one.alone.events_per_second, one.beside.events_per_second),
        both(|run| run.p50_millis),
        format!("{p50:.2}"),
        both(|run| run.p99_millis),
        format!("{p99:.2}"),
        both(|run| run.lost as f64),
        both(|run| run.duplicates as f64),
        both(|run| run.out_of_order as f64),
        verdict(one.others_are_unaffected()),
        verdict(one.memory_is_flat()),
    ]
}

/// What became of the laggards, what the daemon counted, and its memory.
fn details(text: &mut String, table: &Table<Pace, Beside>) {
    let measured = || {
        let entries = table.entries.iter();
        entries.filter_map(|entry| Some((entry.server, entry.outcome.measurements().first()?)))
    };
    if measured().next().is_none() {
        return;
    }
    text.push_str(
        "\n| server | client | connections, and how they ended | events that it read | told as left out |\n\
         |---|---|---|---:|---:|\n",
    );
    for (server, one) in measured() {
        for fate in &one.fates {
            let endings = counts(fate.endings.iter());
            let _ = writeln!(
                text,
                "| {server} | {} | {endings} | {} | {} |",
                fate.kind, fate.events, fate.told_left_out
            );
        }
    }
    for (server, one) in measured() {
        let counted = &one.counted;
        let _ = writeln!(
            text,
            "\n{server} counted meanwhile: sessions closed {}; events coalesced {}; events owed at the end of a session {}. \
             Memory in MiB without laggards {}, with them {}.",
            counts(counted.closed.iter()),
            counted.coalesced,
            counted.dropped,
            mebibytes(&one.alone.resident_kib),
            mebibytes(&one.beside.resident_kib),
        );
    }
}

fn counts<'a>(counts: impl Iterator<Item = (&'a (impl Display + 'a), &'a u64)>) -> String {
    let words: Vec<String> = counts.map(|(what, count)| format!("{what}: {count}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn mebibytes(sizes_kib: &[u64]) -> String {
    let words: Vec<String> = sizes_kib.iter().map(|kib| format!("{:.1}", *kib as f64 / 1024.0)).collect();
    if words.is_empty() { "–".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Entry, Outcome};
    use crate::laggards::tests::beside;

    fn text(outcome: Outcome<Beside>) -> String {
        let table = Table {
            scenario: "1000@1000x20".parse().unwrap(),
            entries: vec![Entry { server: "freshet-ws".parse().unwrap(), outcome }],
        };
        laggards_tables(&Results { laggards: vec![table], ..Results::default() })
    }

    #[test]
    fn a_row_tells_of_the_others_the_laggards_the_counters_and_the_memory() {
        let text = text(Outcome::Measured { measurements: vec![beside()], failures: vec![] });
        for line in [
            "### 1000 clients and laggards, 1000 events/s, 20 at once",
            "| freshet-ws | 1000 → 1000 | 10 → 10.5 | 1.05 | 20 → 22 | 1.10 | 0 → 0 | 0 → 0 | 0 → 0 | met | met |",
            "| freshet-ws | reads 1 KiB/s | cut off: 2, open: 1 | 7 | 5 |",
            "| freshet-ws | never acknowledges | code 4001: 9 | 7 | 5 |",
            "freshet-ws counted meanwhile: sessions closed outbox_full: 11; events coalesced 3; events owed at the end of \
             a session 4. Memory in MiB without laggards 1.0 1.0, with them 2.0 2.1 2.1.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let widths: Vec<usize> =
            text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
        assert_eq!(widths, [12, 12, 12, 6, 6, 6, 6]);
    }

    #[test]
    fn who_has_failed_has_a_reason_and_no_laggards() {
        let text = text(Outcome::Measured { measurements: vec![], failures: vec!["late".to_owned()] });
        assert!(text.ends_with("\nfreshet-ws failed 1 of 1 times: late\n"), "{text}");
    }
}
