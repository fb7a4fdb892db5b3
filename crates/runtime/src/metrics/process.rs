//! What Linux tells about the process, read when somebody asks.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The unit of times in `/proc`, which Linux promises to programs whatever it uses itself.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut show = |name, help, metric: Option<&dyn EncodeMetric>| match metric {
            Some(metric) => {
                metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
            }
            None => Ok(()),
        };
        let (stat, status) = (read("/proc/self/stat"), read("/proc/self/status"));
        let cpu = cpu_seconds(&stat).map(ConstCounter::new);
        show("process_cpu_seconds", "User and system CPU time spent", cpu.as_ref().map(metric))?;
        let started = start_seconds(&stat, &read("/proc/stat")).map(ConstGauge::new);
        let help = "Start time of the process in seconds since 1970";
        show("process_start_time_seconds", help, started.as_ref().map(metric))?;
        let resident = bytes(&status, "VmRSS:").map(ConstGauge::new);
        let help = "Resident memory size in bytes";
        show("process_resident_memory_bytes", help, resident.as_ref().map(metric))?;
        let virtual_size = bytes(&status, "VmSize:").map(ConstGauge::new);
        let help = "Virtual memory size in bytes";
        show("process_virtual_memory_bytes", help, virtual_size.as_ref().map(metric))?;
        let open = fs::read_dir("/proc/self/fd").ok().map(|all| ConstGauge::new(all.count()));
        show("process_open_fds", "Number of open file descriptors", open.as_ref().map(metric))?;
        let most = most_files(&read("/proc/self/limits")).map(ConstGauge::new);
        let help = "Maximum number of open file descriptors";
        show("process_max_fds", help, most.as_ref().map(metric))
    }
}

fn metric<M: EncodeMetric>(metric: &M) -> &dyn EncodeMetric {
    metric
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// A field of `/proc/self/stat`, counted from one as its manual does. The second one, a name in
/// brackets, may contain anything.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start_seconds(stat: &str, machine: &str) -> Option<f64> {
    let booted: f64 = machine.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
    Some(booted + field(stat, 22)? / TICKS_PER_SECOND)
}

fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn most_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_read_as_its_manual_has_it() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 1000 5000 20 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(start_seconds(stat, "cpu 1\nbtime 1700000000\n"), Some(1_700_000_010.0));
        assert_eq!(bytes("VmSize:\t   12 kB\nVmRSS:\t    3 kB\n", "VmRSS:"), Some(3072));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\n";
        assert_eq!(most_files(limits), Some(1024));
        assert_eq!(cpu_seconds(""), None);
    }
}
