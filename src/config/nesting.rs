//! How deep the brackets of a YAML text nest, found without parsing it.
//!
//! The parser's time grows with the square of the depth of `[` and `{`: a kilobyte of them is
//! nothing, a megabyte takes minutes. So they are counted first. Counting has to tell a bracket
//! that opens a collection from one in a comment, in quotes, in a block scalar or inside a
//! word, and to do so exactly as the parser does: a text that made this scanner skip what the
//! parser reads would defeat it, and brackets counted too many would refuse a valid file.
//!
//! Hence a scanner and not a heuristic. It follows the token rules of libyaml, from which the
//! parser descends, and keeps just the state on which they depend: the indentation of the open
//! block collections, which decides where a word or a block scalar of several lines ends, and
//! the place of a possible `key:`, which opens such a collection. Where libyaml would stop with
//! an error the scanner stops too, since the parser reads no further.

/// The byte at which brackets first nest deeper than `max`.
pub(super) fn too_deep(text: &str, max: usize) -> Option<usize> {
    let mut scanner = Scanner::new(text);
    while scanner.token().is_some() {
        if scanner.depth > max {
            return Some(scanner.at.saturating_sub(1));
        }
    }
    None
}

/// The most characters between the beginning of a key and its `:`.
const MAX_KEY: usize = 1024;

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Lines and characters before `at`, and characters of its line before it.
    line: usize,
    index: usize,
    column: usize,
    /// The columns of the open block collections, outermost first.
    indents: Vec<usize>,
    /// Open brackets. The two fields below matter only outside of all.
    depth: usize,
    /// Whether the next token may begin a key.
    key_allowed: bool,
    /// A token that is a key if a `:` follows.
    key: Option<Key>,
}

#[derive(Clone, Copy)]
struct Key {
    line: usize,
    index: usize,
    column: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
            line: 0,
            index: 0,
            column: 0,
            indents: Vec::new(),
            depth: 0,
            key_allowed: true,
            key: None,
        }
    }

    /// Passes over one token. None at the end, or where the parser would stop.
    fn token(&mut self) -> Option<()> {
        self.blanks_and_comments();
        if self.depth == 0 {
            while self
                .indents
                .last()
                .is_some_and(|&indent| indent > self.column)
            {
                self.indents.pop();
            }
        }
        let separates = self.is_blank_or_end(1);
        let in_brackets = self.depth > 0;
        match self.peek(0)? {
            b'%' if self.column == 0 => self.skip_line(),
            b'-' | b'.' if self.is_document_marker() => self.document_marker(),
            b'[' | b'{' => {
                self.may_be_key();
                self.depth += 1;
                self.key_allowed = true;
                self.skip();
            }
            b']' | b'}' => {
                self.forget_key();
                self.depth = self.depth.saturating_sub(1);
                self.key_allowed = false;
                self.skip();
            }
            b',' => {
                self.forget_key();
                self.key_allowed = true;
                self.skip();
            }
            b'-' if separates => self.block_indicator()?,
            b'?' if in_brackets || separates => self.block_indicator()?,
            b':' if in_brackets || separates => self.value_indicator()?,
            b'*' | b'&' => self.anchor(),
            b'!' => self.tag(),
            b'|' | b'>' if !in_brackets => self.block_scalar()?,
            quote @ (b'\'' | b'"') => self.quoted(quote),
            b'-' => self.plain()?,
            b'?' | b':' if !in_brackets => self.plain()?,
            b'?' | b':' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => return None,
            _ => self.plain()?,
        }
        Some(())
    }

    fn document_marker(&mut self) {
        if self.depth == 0 {
            self.indents.clear();
        }
        self.forget_key();
        self.key_allowed = false;
        (0..3).for_each(|_| self.skip());
    }

    /// `- ` or `? `.
    fn block_indicator(&mut self) -> Option<()> {
        if self.depth == 0 {
            self.key_allowed.then(|| self.indent(self.column))?;
            self.key = None;
        }
        self.skip();
        Some(())
    }

    /// `:`.
    fn value_indicator(&mut self) -> Option<()> {
        if self.depth == 0 {
            let fresh = |key: &Key| key.line == self.line && self.index - key.index <= MAX_KEY;
            match self.key.take().filter(fresh) {
                Some(key) => {
                    self.indent(key.column);
                    self.key_allowed = false;
                }
                None => self.key_allowed.then(|| self.indent(self.column))?,
            }
        }
        self.skip();
        Some(())
    }

    /// `&name` or `*name`.
    fn anchor(&mut self) {
        self.may_be_key();
        self.skip();
        while self
            .peek(0)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        {
            self.skip();
        }
    }

    /// `!name` or `!<name>`.
    fn tag(&mut self) {
        self.may_be_key();
        let verbatim = self.peek(1) == Some(b'<');
        while !self.is_blank_or_end(0) {
            match self.peek(0) {
                Some(b'>') if verbatim => return self.skip(),
                Some(b',') if !verbatim && self.depth > 0 => return,
                _ => self.skip(),
            }
        }
    }

    fn quoted(&mut self, quote: u8) {
        self.may_be_key();
        self.skip();
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' && quote == b'"' {
                self.skip();
            } else if byte == quote {
                self.skip();
                if quote == b'"' || self.peek(0) != Some(quote) {
                    return;
                }
            }
            self.skip();
        }
    }

    /// A word without quotes, over as many lines as are indented deeper than what it stands in.
    fn plain(&mut self) -> Option<()> {
        self.may_be_key();
        let least = self.least_column();
        let in_brackets = self.depth > 0;
        let mut line_begins = false;
        while !self.is_document_marker() && self.peek(0) != Some(b'#') {
            while !self.is_blank_or_end(0) {
                match self.peek(0)? {
                    b':' if self.is_blank_or_end(1) => break,
                    b':' if in_brackets
                        && matches!(
                            self.peek(1),
                            Some(b',' | b'?' | b'[' | b']' | b'{' | b'}')
                        ) =>
                    {
                        return None;
                    }
                    b',' | b'[' | b']' | b'{' | b'}' if in_brackets => break,
                    _ => self.skip(),
                }
                line_begins = false;
            }
            if !(self.is_blank(0) || self.is_break(0)) {
                break;
            }
            while self.is_blank(0) || self.is_break(0) {
                if line_begins && self.column < least && self.peek(0) == Some(b'\t') {
                    return None;
                }
                line_begins |= self.is_break(0);
                self.skip();
            }
            if !in_brackets && self.column < least {
                break;
            }
        }
        self.key_allowed |= line_begins;
        Some(())
    }

    /// `|` or `>` and the lines that are indented deeper.
    fn block_scalar(&mut self) -> Option<()> {
        self.forget_key();
        self.key_allowed = true;
        self.skip();
        let mut indent = 0;
        let mut chomping = false;
        loop {
            match self.peek(0) {
                Some(b'+' | b'-') if !chomping => chomping = true,
                Some(digit @ b'1'..=b'9') if indent == 0 => {
                    indent = self.indents.last().copied().unwrap_or(0) + usize::from(digit - b'0');
                }
                _ => break,
            }
            self.skip();
        }
        while self.is_blank(0) {
            self.skip();
        }
        if self.peek(0) == Some(b'#') {
            self.skip_line();
        }
        if !self.is_break(0) && self.peek(0).is_some() {
            return None;
        }
        self.skip();
        self.block_scalar_indent(&mut indent)?;
        while self.column == indent && self.peek(0).is_some() {
            self.skip_line();
            self.skip();
            self.block_scalar_indent(&mut indent)?;
        }
        Some(())
    }

    /// The indentation of the next line with text, which is the scalar's if that is still 0.
    fn block_scalar_indent(&mut self, indent: &mut usize) -> Option<()> {
        let mut widest = 0;
        loop {
            let inside = |column| *indent == 0 || column < *indent;
            while inside(self.column) && self.peek(0) == Some(b' ') {
                self.skip();
            }
            widest = widest.max(self.column);
            if inside(self.column) && self.peek(0) == Some(b'\t') {
                return None;
            }
            if !self.is_break(0) {
                break;
            }
            self.skip();
        }
        if *indent == 0 {
            *indent = widest.max(self.least_column()).max(1);
        }
        Some(())
    }

    fn blanks_and_comments(&mut self) {
        loop {
            if self.column == 0 && self.bytes[self.at..].starts_with(b"\xEF\xBB\xBF") {
                self.skip();
            }
            // A tab may not indent what may be a key.
            let tabs = self.depth > 0 || !self.key_allowed;
            while matches!(self.peek(0), Some(b' ')) || tabs && matches!(self.peek(0), Some(b'\t'))
            {
                self.skip();
            }
            if self.peek(0) == Some(b'#') {
                self.skip_line();
            }
            if !self.is_break(0) {
                return;
            }
            self.skip();
            if self.depth == 0 {
                self.key_allowed = true;
            }
        }
    }

    // ===== state =====

    /// Opens a block collection, unless one is open at this column.
    fn indent(&mut self, column: usize) {
        if self.indents.last().is_none_or(|&indent| indent < column) {
            self.indents.push(column);
        }
    }

    /// Where a line has to begin at least to belong to the innermost block collection's entry.
    fn least_column(&self) -> usize {
        self.indents.last().map_or(0, |indent| indent + 1)
    }

    fn may_be_key(&mut self) {
        if self.depth == 0 && self.key_allowed {
            self.key = Some(Key {
                line: self.line,
                index: self.index,
                column: self.column,
            });
        }
        self.key_allowed = false;
    }

    fn forget_key(&mut self) {
        if self.depth == 0 {
            self.key = None;
        }
    }

    // ===== characters =====

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Passes over one character, or one line break.
    fn skip(&mut self) {
        let Some(first) = self.peek(0) else { return };
        let line_break = self.line_break(0);
        if line_break > 0 {
            self.at += line_break;
            self.line += 1;
            self.column = 0;
        } else {
            self.at += match first {
                0..0xC0 => 1,
                0xC0..0xE0 => 2,
                0xE0..0xF0 => 3,
                0xF0.. => 4,
            };
            self.column += 1;
        }
        self.index += 1;
    }

    /// Passes over the rest of the line, up to its break.
    fn skip_line(&mut self) {
        while self.peek(0).is_some() && !self.is_break(0) {
            self.skip();
        }
    }

    /// The length of the line break ahead, 0 if there is none.
    fn line_break(&self, ahead: usize) -> usize {
        match self.bytes.get(self.at + ahead..).unwrap_or_default() {
            [b'\r', b'\n', ..] | [0xC2, 0x85, ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            [0xE2, 0x80, 0xA8 | 0xA9, ..] => 3,
            _ => 0,
        }
    }

    fn is_break(&self, ahead: usize) -> bool {
        self.line_break(ahead) > 0
    }

    fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.peek(ahead), Some(b' ' | b'\t'))
    }

    fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break(ahead) || self.peek(ahead).is_none()
    }

    fn is_document_marker(&self) -> bool {
        let rest = &self.bytes[self.at..];
        self.column == 0
            && (rest.starts_with(b"---") || rest.starts_with(b"..."))
            && self.is_blank_or_end(3)
    }
}
