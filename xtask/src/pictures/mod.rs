//! Draws the pictures of the guides: boxes, arrows and words from the lists in [`drawings`], written to
//! `docs/pictures`. `--check` only compares.

mod drawings;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// One picture.
struct Picture {
    file: &'static str,
    title: &'static str,
    size: (i32, i32),
    items: Vec<Item>,
}

/// What colours mean.
#[derive(Clone, Copy)]
enum Tone {
    /// The control plane and what it does.
    Plane,
    /// A member, or what runs there.
    Member,
    /// What is away or failed.
    Lost,
    /// What people write.
    Written,
}

impl Tone {
    fn fill(self) -> &'static str {
        match self {
            Self::Plane => "#e8f0fb",
            Self::Member => "#eaf7ea",
            Self::Lost => "#f4f4f4",
            Self::Written => "#fdf6e3",
        }
    }

    fn line(self) -> &'static str {
        match self {
            Self::Plane => "#446688",
            Self::Member => "#337744",
            Self::Lost => "#999999",
            Self::Written => "#997733",
        }
    }
}

enum Item {
    /// A box with a title and a line below it: left, top, width, height.
    Box { at: (i32, i32, i32, i32), tone: Tone, title: &'static str, below: &'static str },
    /// A frame around other boxes, with its name in the corner.
    Frame { at: (i32, i32, i32, i32), tone: Tone, name: &'static str },
    /// An arrow through points, with a word beside its middle.
    Arrow { through: Vec<(i32, i32)>, tone: Tone, word: &'static str, dashed: bool },
    /// Words alone.
    Words { at: (i32, i32), text: &'static str },
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let only_compare = args.iter().any(|arg| arg == "--check");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    std::fs::create_dir_all(&folder).context("make docs/pictures")?;
    let mut known = Vec::new();
    for picture in drawings::all() {
        let (path, text) = (folder.join(picture.file), draw(&picture));
        known.push(picture.file);
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        if present == text {
            continue;
        }
        if only_compare {
            bail!("docs/pictures/{} is not what is drawn; run: cargo xtask pictures", picture.file);
        }
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        println!("drew docs/pictures/{}", picture.file);
    }
    for entry in std::fs::read_dir(&folder).context("read docs/pictures")? {
        let name = entry.context("read docs/pictures")?.file_name();
        if !known.iter().any(|file| name == *file) {
            bail!("docs/pictures/{} is drawn by nobody", name.to_string_lossy());
        }
    }
    Ok(())
}

fn draw(picture: &Picture) -> String {
    let (width, height) = picture.size;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\" aria-label=\"{}\">\n<defs>\n",
        escape(picture.title)
    );
    for (name, tone) in [
        ("plane", Tone::Plane),
        ("member", Tone::Member),
        ("lost", Tone::Lost),
        ("written", Tone::Written),
    ] {
        writeln!(
            out,
            "<marker id=\"{name}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{}\"/></marker>",
            tone.line()
        )
        .expect("a string takes everything");
    }
    out.push_str("</defs>\n");
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>")
        .expect("a string takes everything");
    out.push_str(&words((16, 24), "start", 14, true, "#222222", picture.title));
    picture.items.iter().for_each(|item| out.push_str(&draw_item(item)));
    out.push_str("</svg>\n");
    out
}

fn draw_item(item: &Item) -> String {
    match item {
        Item::Box { at: (left, top, width, height), tone, title, below } => {
            let middle = left + width / 2;
            let mut out = rectangle((*left, *top, *width, *height), *tone, tone.fill(), "");
            let line = if below.is_empty() { top + height / 2 + 4 } else { top + height / 2 - 4 };
            out.push_str(&words((middle, line), "middle", 12, true, "#222222", title));
            if !below.is_empty() {
                out.push_str(&words((middle, line + 17), "middle", 10, false, "#444444", below));
            }
            out
        }
        Item::Frame { at: (left, top, width, height), tone, name } => {
            let frame = rectangle(
                (*left, *top, *width, *height),
                *tone,
                "none",
                " stroke-dasharray=\"2 3\"",
            );
            frame + &words((left + 10, top + 17), "start", 11, true, tone.line(), name)
        }
        Item::Arrow { through, tone, word, dashed } => arrow(through, *tone, word, *dashed),
        Item::Words { at, text } => words(*at, "start", 11, false, "#444444", text),
    }
}

fn rectangle(
    (left, top, width, height): (i32, i32, i32, i32),
    tone: Tone,
    fill: &str,
    more: &str,
) -> String {
    format!(
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{fill}\" \
         stroke=\"{}\"{more}/>\n",
        tone.line()
    )
}

fn arrow(through: &[(i32, i32)], tone: Tone, word: &str, dashed: bool) -> String {
    let path: Vec<String> = through
        .iter()
        .enumerate()
        .map(|(place, (x, y))| format!("{}{x} {y}", if place == 0 { "M" } else { "L" }))
        .collect();
    let head = match tone {
        Tone::Plane => "plane",
        Tone::Member => "member",
        Tone::Lost => "lost",
        Tone::Written => "written",
    };
    let dashes = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    let mut out = format!(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\"{dashes} marker-end=\"url(#{head})\"/>\n",
        path.concat(),
        tone.line()
    );
    if let ([(from_x, from_y), (to_x, to_y), ..], false) = (through, word.is_empty()) {
        let middle = ((from_x + to_x) / 2, (from_y + to_y) / 2 - 6);
        out.push_str(&words(middle, "middle", 10, false, tone.line(), word));
    }
    out
}

fn words(
    (x, y): (i32, i32),
    anchor: &str,
    size: i32,
    bold: bool,
    colour: &str,
    text: &str,
) -> String {
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    format!(
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\"{weight} fill=\"{colour}\">{}</text>\n",
        escape(text)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
