//! Columns of equal width on standard output, and what the process has used.

use std::time::Duration;

/// Prints the rows below the header, the first column left-aligned, the others right-aligned.
#[allow(clippy::print_stdout, reason = "the table is what the program is for")]
pub(crate) fn print(header: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        let longest = cells.chain(header.get(column).copied()).map(|cell| cell.chars().count());
        longest.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let cell = |(column, text): (usize, &str)| {
            let width = widths.get(column).copied().unwrap_or_default();
            if column == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        println!("{}", cells.into_iter().enumerate().map(cell).collect::<Vec<_>>().join("  "));
    };
    line(header.to_vec());
    rows.iter().for_each(|row| line(row.iter().map(String::as_str).collect()));
}

pub(crate) fn per_second(count: usize, elapsed: Duration) -> String {
    format!("{:.0}", count as f64 / elapsed.as_secs_f64())
}

pub(crate) fn micros(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e6)
}

/// The value below which the given share of the samples lies.
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    samples.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

/// The most memory the process has had at once, in megabytes.
pub(crate) fn peak_rss_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes / 1024)
}

/// The memory the process has now, in kilobytes.
pub(crate) fn rss_kb() -> u64 {
    rss_kb_of_process(std::process::id())
}

/// The same of another process.
pub(crate) fn rss_kb_of_process(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or_default()
}

/// Processor time of the calling thread so far. What others do on the machine does not count.
pub(crate) fn thread_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// Processor time of this process so far: everything it runs, load and members included.
pub(crate) fn cpu_seconds() -> f64 {
    cpu_seconds_of_process(std::process::id())
}

/// The same of another process.
pub(crate) fn cpu_seconds_of_process(pid: u32) -> f64 {
    cpu_seconds_in(&std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default())
}

/// Processor time of the threads of this name so far.
pub(crate) fn cpu_seconds_of_threads(name: &str) -> f64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let stats = threads.flatten().filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.contains(&format!("({name})")).then_some(stat)
    });
    stats.map(|stat| cpu_seconds_in(&stat)).sum()
}

fn cpu_seconds_in(stat: &str) -> f64 {
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |place: usize| fields.get(place).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    // Counted in hundredths on every Linux of today.
    (ticks(12) + ticks(13)) / 100.0
}
