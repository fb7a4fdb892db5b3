//! What was measured of one server, and the table that lays several of them side by side.

use crate::table;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

#[derive(Debug, Clone)]
pub(super) struct Figure {
    what: String,
    value: f64,
    better: Better,
    goal: &'static str,
}

/// In the order of measuring, which is the same for all servers.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures(Vec<Figure>);

impl Figures {
    pub(super) fn more(&mut self, what: impl Into<String>, value: f64, goal: &'static str) {
        self.0.push(Figure { what: what.into(), value, better: Better::More, goal });
    }

    pub(super) fn less(&mut self, what: impl Into<String>, value: f64, goal: &'static str) {
        self.0.push(Figure { what: what.into(), value, better: Better::Less, goal });
    }
}

fn shown(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// How many times better the first is.
fn ratio(own: &Figure, other: &Figure) -> String {
    let (better, worse) = match own.better {
        Better::More => (own.value, other.value),
        Better::Less => (other.value, own.value),
    };
    if worse > 0.0 { format!("{:.1}x", better / worse) } else { String::new() }
}

/// Prints a column per server and how many times better ours are than the last, if that is a real one.
pub(super) fn print(servers: &[(&str, Figures)], compared: bool) {
    let Some((_, first)) = servers.first() else { return };
    let real = servers.last().filter(|_| compared && servers.len() > 1).map(|(_, real)| real);
    let ours = &servers[..servers.len() - usize::from(real.is_some())];
    let mut header: Vec<String> = vec!["what".to_owned()];
    header.extend(servers.iter().map(|(title, _)| (*title).to_owned()));
    if real.is_some() {
        header.extend(ours.iter().map(|(title, _)| format!("{title}: ratio")));
    }
    header.push("goal".to_owned());
    let row = |place: usize| -> Option<Vec<String>> {
        let figure = first.0.get(place)?;
        let mut cells = vec![figure.what.clone()];
        let of = |figures: &Figures| figures.0.get(place).map(|figure| shown(figure.value));
        cells.extend(servers.iter().map(|(_, figures)| of(figures).unwrap_or_default()));
        if let Some(other) = real.and_then(|real| real.0.get(place)) {
            let against = |figures: &Figures| figures.0.get(place).map(|own| ratio(own, other));
            cells.extend(ours.iter().map(|(_, figures)| against(figures).unwrap_or_default()));
        }
        cells.push(figure.goal.to_owned());
        Some(cells)
    };
    let rows: Vec<Vec<String>> = (0..first.0.len()).filter_map(row).collect();
    table::print(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
}
