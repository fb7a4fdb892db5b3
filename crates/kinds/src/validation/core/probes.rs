//! Probes and lifecycle hooks of containers.

use karmada_apimachinery::names;

use super::container::Surroundings;
use crate::validation::place::{At, Errors};

pub(crate) fn check_lifecycle_and_probes(
    container: &At<'_>,
    pod: &Surroundings<'_>,
    errs: &mut Errors,
) {
    let lifecycle = container.field("lifecycle");
    for hook in ["postStart", "preStop"] {
        if lifecycle.field(hook).is_set() {
            check_handler(&lifecycle.field(hook), pod.grace(), errs);
        }
    }
    if lifecycle.field("stopSignal").is_set() {
        check_stop_signal(&lifecycle.field("stopSignal"), &pod.os(), errs);
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(kind);
        if !probe.is_set() {
            continue;
        }
        check_probe(&probe, errs);
        if kind == "readinessProbe" {
            let grace = probe.field("terminationGracePeriodSeconds");
            if grace.is_set() {
                errs.invalid_value(&grace, "must not be set for readinessProbes");
            }
        } else if probe.field("successThreshold").int() != 1 {
            errs.invalid_int(&probe.field("successThreshold"), "must be 1");
        }
    }
}

fn check_probe(probe: &At<'_>, errs: &mut Errors) {
    check_handler(probe, None, errs);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errs.non_negative(&probe.field(field));
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds <= 0) {
        errs.invalid_int(&grace, "must be greater than 0");
    }
}

fn check_handler(handler: &At<'_>, grace: Option<i64>, errs: &mut Errors) {
    let mut found = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.field(kind);
        if !action.is_set() {
            continue;
        }
        if found {
            errs.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match kind {
            "exec" => {
                if action.field("command").is_empty() {
                    errs.required(&action.field("command"), "");
                }
            }
            "httpGet" => check_http_get(&action, errs),
            "sleep" => check_sleep(&action, grace, errs),
            _ => check_port_or_name(&action.field("port"), errs),
        }
    }
    if !found {
        errs.required(handler, "must specify a handler type");
    }
}

fn check_sleep(sleep: &At<'_>, grace: Option<i64>, errs: &mut Errors) {
    let seconds = sleep.field("seconds").int();
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errs.invalid(sleep, seconds, detail);
    }
}

fn check_http_get(action: &At<'_>, errs: &mut Errors) {
    errs.required_text(&action.field("path"));
    check_port_or_name(&action.field("port"), errs);
    let scheme = action.field("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme.text()) {
        errs.unsupported(&scheme, &["HTTP", "HTTPS"]);
    }
    let headers = action.field("httpHeaders");
    for header in headers.items() {
        let name = header.field("name").text();
        errs.messages_for(&headers, name, &names::http_header_name(name));
    }
}

/// A port number or a port name.
pub(crate) fn check_port_or_name(port: &At<'_>, errs: &mut Errors) {
    if port.value.is_string() {
        errs.messages(port, &names::port_name(port.text()));
    } else {
        errs.in_range(port, 1, 65535);
    }
}

const SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

fn check_stop_signal(signal: &At<'_>, os: &At<'_>, errs: &mut Errors) {
    match os.field("name").text() {
        _ if !os.is_set() => {
            errs.forbidden(signal, "may not be set for containers with empty `spec.os.name`");
        }
        "windows" => errs.one_of(signal, &["SIGKILL", "SIGTERM"]),
        "linux" => errs.one_of(signal, &SIGNALS),
        _ => {}
    }
}
