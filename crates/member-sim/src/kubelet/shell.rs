//! A very small shell: enough to look around in a pod that is not there. It changes nothing.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

/// What a command said and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: i32,
    /// The shell itself is to end.
    pub(super) exits: bool,
}

impl Output {
    fn says(text: impl Into<String>) -> Self {
        Self { stdout: text.into(), ..Self::default() }
    }

    fn fails(code: i32, text: impl Into<String>) -> Self {
        Self { stderr: text.into(), code, ..Self::default() }
    }
}

/// What can be seen inside a container.
pub(super) struct Inside {
    pub(super) hostname: String,
    pub(super) env: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    date: String,
}

impl Inside {
    pub(super) fn of(pod: &Value, container: &str, date: String) -> Self {
        let hostname = pod.str_at(&["spec", "hostname"]).unwrap_or(pod.name()).to_owned();
        let address = pod.str_at(&["status", "podIP"]).unwrap_or_default();
        let containers = pod.list_at(&["spec", "containers"]);
        let found = containers.iter().find(|found| found["name"] == container);
        let mut env: BTreeMap<String, String> = [
            ("HOME", "/root"),
            ("HOSTNAME", hostname.as_str()),
            ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
            ("KUBERNETES_SERVICE_PORT", "443"),
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        for variable in found.map_or(&[][..], |found| found.list_at(&["env"])) {
            let value = variable.str_at(&["value"]).unwrap_or_default();
            env.insert(variable.str_at(&["name"]).unwrap_or_default().to_owned(), value.to_owned());
        }
        let hosts = format!("127.0.0.1\tlocalhost\n{address}\t{hostname}\n");
        let release = "NAME=\"Simulated Linux\"\nID=simulated\n".to_owned();
        let files = [
            ("/etc/hostname", format!("{hostname}\n")),
            ("/etc/hosts", hosts),
            ("/etc/os-release", release),
            ("/var/run/secrets/kubernetes.io/serviceaccount/namespace", pod.namespace().to_owned()),
        ];
        let files = files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
        Self { hostname, env, files, date }
    }

    /// Runs a command given word by word.
    pub(super) fn run(&self, words: &[String]) -> Output {
        let Some((name, arguments)) = words.split_first() else { return Output::default() };
        let name = name.rsplit('/').next().unwrap_or_default();
        let rest = arguments.join(" ");
        match name {
            "sh" | "bash" | "ash" | "dash" => match arguments.split_first() {
                Some((flag, script)) if flag.ends_with('c') && flag.starts_with('-') => {
                    self.script(script.first().map_or("", String::as_str))
                }
                _ => Output::default(),
            },
            "true" | ":" | "sleep" => Output::default(),
            "false" => Output { code: 1, ..Output::default() },
            "exit" => {
                let code = arguments.first().and_then(|code| code.parse().ok()).unwrap_or(0);
                Output { code, exits: true, ..Output::default() }
            }
            "echo" => match arguments.split_first() {
                Some((flag, words)) if flag == "-n" => Output::says(words.join(" ")),
                _ => Output::says(format!("{rest}\n")),
            },
            "printf" => Output::says(rest.replace("\\n", "\n")),
            "hostname" => Output::says(format!("{}\n", self.hostname)),
            "whoami" => Output::says("root\n"),
            "id" => Output::says("uid=0(root) gid=0(root) groups=0(root)\n"),
            "pwd" => Output::says("/\n"),
            "date" => Output::says(format!("{}\n", self.date)),
            "uname" => Output::says("Linux\n"),
            "env" | "printenv" => self.printenv(arguments),
            "ls" => self.ls(arguments),
            "cat" => self.cat(arguments),
            _ => Output::fails(127, format!("sh: {name}: not found in this simulated container\n")),
        }
    }

    fn printenv(&self, names: &[String]) -> Output {
        match names.first() {
            None => {
                Output::says(self.env.iter().map(|(k, v)| format!("{k}={v}\n")).collect::<String>())
            }
            Some(name) => match self.env.get(name) {
                Some(value) => Output::says(format!("{value}\n")),
                None => Output { code: 1, ..Output::default() },
            },
        }
    }

    fn ls(&self, arguments: &[String]) -> Output {
        let path = arguments.iter().find(|word| !word.starts_with('-'));
        let path = path.map_or("/", String::as_str).trim_end_matches('/');
        if self.files.contains_key(path) {
            return Output::says(format!("{path}\n"));
        }
        let prefix = format!("{path}/");
        let mut names: Vec<&str> = self
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(&prefix))
            .filter_map(|rest| rest.split('/').next())
            .collect();
        if path.is_empty() {
            names.extend(["bin", "dev", "home", "proc", "root", "tmp", "usr"]);
        } else if names.is_empty() {
            return Output::fails(1, format!("ls: {path}: No such file or directory\n"));
        }
        names.sort_unstable();
        names.dedup();
        Output::says(names.iter().map(|name| format!("{name}\n")).collect::<String>())
    }

    fn cat(&self, paths: &[String]) -> Output {
        let mut output = Output::default();
        for path in paths {
            match self.files.get(path) {
                Some(text) => output.stdout.push_str(text),
                None => {
                    output.stderr.push_str(&format!("cat: {path}: No such file or directory\n"));
                    output.code = 1;
                }
            }
        }
        output
    }

    /// Runs commands joined by `;`, `&&` and `||`, with quotes and variables.
    pub(super) fn script(&self, text: &str) -> Output {
        let mut all = Output::default();
        let mut skip = false;
        for (joint, command) in split(text) {
            skip = match joint {
                Joint::Then => false,
                Joint::And => all.code != 0,
                Joint::Or => all.code == 0,
            };
            let words = self.words(&command);
            if skip || words.is_empty() {
                continue;
            }
            let output = self.run(&words);
            all.stdout.push_str(&output.stdout);
            all.stderr.push_str(&output.stderr);
            all.code = output.code;
            if output.exits {
                all.exits = true;
                break;
            }
        }
        let _ = skip;
        all
    }

    /// Takes a command apart into words.
    fn words(&self, command: &str) -> Vec<String> {
        let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
        let mut letters = command.chars().peekable();
        while let Some(letter) = letters.next() {
            match (letter, quote) {
                ('\'' | '"', None) => (quote, begun) = (Some(letter), true),
                (letter, Some(open)) if letter == open => quote = None,
                ('$', open) if open != Some('\'') => {
                    let braced = letters.next_if_eq(&'{').is_some();
                    let mut name = String::new();
                    while let Some(next) = letters.next_if(|c| c.is_alphanumeric() || *c == '_') {
                        name.push(next);
                    }
                    if braced {
                        letters.next_if_eq(&'}');
                    }
                    word.push_str(self.env.get(&name).map_or("", String::as_str));
                }
                (letter, None) if letter.is_whitespace() => {
                    if begun || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                    begun = false;
                }
                (letter, _) => word.push(letter),
            }
        }
        if begun || !word.is_empty() {
            words.push(word);
        }
        words
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    Then,
    And,
    Or,
}

/// Splits a script at its joints, outside of quotes.
fn split(text: &str) -> Vec<(Joint, String)> {
    let (mut parts, mut joint, mut part, mut quote) =
        (Vec::new(), Joint::Then, String::new(), None);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                None
            }
            (letter, Some(open)) if letter == open => {
                quote = None;
                None
            }
            (';' | '\n', None) => Some(Joint::Then),
            ('&', None) if letters.next_if_eq(&'&').is_some() => Some(Joint::And),
            ('|', None) if letters.next_if_eq(&'|').is_some() => Some(Joint::Or),
            _ => None,
        };
        match next {
            Some(next) => {
                parts.push((std::mem::replace(&mut joint, next), std::mem::take(&mut part)))
            }
            None => part.push(letter),
        }
    }
    parts.push((joint, part));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn scripts_join_commands_and_know_quotes_and_variables() {
        let pod = json!({
            "metadata": {"name": "web-1", "namespace": "default"},
            "spec": {"containers": [{"name": "main", "env": [{"name": "COLOUR", "value": "red"}]}]},
        });
        let inside = Inside::of(&pod, "main", "today".to_owned());
        let run = |script: &str| {
            let output = inside.script(script);
            (output.stdout + &output.stderr, output.code)
        };
        assert_eq!(
            run("hostname; echo \"a ; b\" $COLOUR '$COLOUR'"),
            ("web-1\na ; b red $COLOUR\n".into(), 0)
        );
        assert_eq!(run("false && echo no || echo yes"), ("yes\n".into(), 0));
        assert_eq!(run("exit 3; echo never"), (String::new(), 3));
        assert_eq!(run("cat /etc/hostname /nothing").1, 1);
        assert_eq!(run("curl x").1, 127);
        let words: Vec<String> = ["sh", "-c", "echo hi"].map(str::to_owned).to_vec();
        assert_eq!(inside.run(&words).stdout, "hi\n");
    }
}
