//! Whether a text is a Lua 5.1 chunk, without running it. Errors read as the original's Lua reports them:
//! place, nearby token and "syntax error" or "parse error".

mod parse;
mod scan;

use parse::Parser;
use scan::Token;

/// Checks a chunk; the error text ends in a line break, as the original's does.
pub(crate) fn check(source: &str) -> Result<(), String> {
    let mut parser = Parser::new(source)?;
    parser.block(0)?;
    match parser.token {
        Token::End => Ok(()),
        _ => parser.syntax_error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_every_construct_pass() {
        let scripts = [
            "",
            "function Retain(d, o)\n  d.spec.x = o.spec['y']\n  return d\nend",
            "local a, b = 1, 0x1F; a, b = b, a",
            "for i = 1, 10, 2 do print(i) end for k, v in pairs(t) do f{k = v, [1] = 2; 3} end",
            "if a == nil then return elseif not a then f() else g'x' end",
            "while true do end repeat local x = #t until x ~= 1.5e-3 or -x ^ 2 < 3",
            "local function f(...) return ... end -- comment\n--[[ long\ncomment ]] x = [==[ text ]==]",
            "a.b.c:d(1, 'it\\'s', \"q\", [[z]]).e = function() end",
            "do local s = 'a' .. \"b\" break end",
            "(f or g)(1)",
            "error('now')",
            "x = 1. + .5 + 1e3 + 0xfF + 3 ..2",
        ];
        for script in scripts {
            assert_eq!(check(script), Ok(()), "{script}");
        }
    }

    #[test]
    fn errors_say_where_and_what_as_the_original_does() {
        let cases = [
            ("y y", "<string> line:1(column:3) near 'y':   parse error\n"),
            ("42", "<string> line:1(column:2) near '42':   syntax error\n"),
            ("(", "<string> at EOF:   syntax error\n"),
            ("x", "<string> at EOF:   parse error\n"),
            ("function f(", "<string> at EOF:   syntax error\n"),
            ("return 1\nend", "<string> line:2(column:3) near 'end':   syntax error\n"),
            ("if x then", "<string> at EOF:   syntax error\n"),
            ("x = = 1", "<string> line:1(column:5) near '=':   syntax error\n"),
            ("x = 'abc", "<string> at EOF:   unterminated string\n"),
            ("x = @", "<string> line:1(column:5) near '@':   Invalid token\n"),
            ("x = 0x", "<string> line:1(column:6) near '0x':   illegal hexadecimal number\n"),
            ("x = ~y", "<string> line:1(column:5) near '~':   Invalid '~' token\n"),
            ("x = 3y", "<string> at EOF:   parse error\n"),
        ];
        for (script, expected) in cases {
            assert_eq!(check(script), Err(expected.to_owned()), "{script}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        assert!(check(&"(".repeat(100_000)).is_err());
        assert!(check(&format!("x = {}", "{".repeat(100_000))).is_err());
        assert!(check(&"do ".repeat(100_000)).is_err());
    }
}
