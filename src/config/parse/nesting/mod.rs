//! Finds how deeply the brackets of a YAML text nest, without parsing it.
//!
//! The parser's time is quadratic in the depth of `[` and `{`: a kilobyte of them is harmless, a megabyte
//! takes minutes. So they are counted first. Counting must distinguish a bracket that opens a collection from
//! one in a comment, in quotes, in a block scalar or inside a plain scalar, exactly as the parser does: a
//! text that made this scanner skip what the parser reads would defeat it, and counting too many brackets
//! would refuse a valid file.
//!
//! Hence a scanner and not a heuristic. It follows the token rules of libyaml, from which the parser
//! descends, and keeps only the state on which they depend: the indentation of the open block collections,
//! which determines where a plain or block scalar of several lines ends, and the position of a possible
//! `key:`, which opens such a collection. Where libyaml would stop with an error the scanner stops too, since
//! the parser reads no further.

mod cursor;
mod scalars;
#[cfg(test)]
mod tests;

use self::cursor::Cursor;

/// The byte at which brackets first nest more than `max` deep.
pub(super) fn too_deep(text: &str, max: usize) -> Option<usize> {
    let mut scanner = Scanner::new(text);
    while scanner.token().is_some() {
        if scanner.depth > max {
            return Some(scanner.text.at.saturating_sub(1));
        }
    }
    None
}

/// The maximum number of characters from the beginning of a key to its `:`.
const MAX_KEY: usize = 1024;

struct Scanner<'a> {
    text: Cursor<'a>,
    /// The columns of the open block collections, outermost first.
    indents: Vec<usize>,
    /// The number of open brackets. The two fields below matter only if it is 0.
    depth: usize,
    /// Whether the next token may begin a key.
    key_allowed: bool,
    /// A token that turns out to be a key if a `:` follows.
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
            text: Cursor::new(text),
            indents: Vec::new(),
            depth: 0,
            key_allowed: true,
            key: None,
        }
    }

    /// Skips one token. `None` at the end, or where the parser would stop with an error.
    fn token(&mut self) -> Option<()> {
        self.blanks_and_comments();
        if self.depth == 0 {
            while self
                .indents
                .last()
                .is_some_and(|&indent| indent > self.text.column)
            {
                self.indents.pop();
            }
        }
        let separates = self.text.is_blank_or_end(1);
        let in_brackets = self.depth > 0;
        match self.text.peek(0)? {
            b'%' if self.text.column == 0 => self.text.skip_line(),
            b'-' | b'.' if self.text.is_document_marker() => self.document_marker(),
            b'[' | b'{' => {
                self.may_be_key();
                self.depth += 1;
                self.key_allowed = true;
                self.text.skip();
            }
            b']' | b'}' => {
                self.forget_key();
                self.depth = self.depth.saturating_sub(1);
                self.key_allowed = false;
                self.text.skip();
            }
            b',' => {
                self.forget_key();
                self.key_allowed = true;
                self.text.skip();
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
        (0..3).for_each(|_| self.text.skip());
    }

    /// `- ` or `? `.
    fn block_indicator(&mut self) -> Option<()> {
        if self.depth == 0 {
            self.key_allowed.then(|| self.indent(self.text.column))?;
            self.key = None;
        }
        self.text.skip();
        Some(())
    }

    /// `:`.
    fn value_indicator(&mut self) -> Option<()> {
        if self.depth == 0 {
            let fresh =
                |key: &Key| key.line == self.text.line && self.text.index - key.index <= MAX_KEY;
            match self.key.take().filter(fresh) {
                Some(key) => {
                    self.indent(key.column);
                    self.key_allowed = false;
                }
                None => self.key_allowed.then(|| self.indent(self.text.column))?,
            }
        }
        self.text.skip();
        Some(())
    }

    /// `&name` or `*name`.
    fn anchor(&mut self) {
        self.may_be_key();
        self.text.skip();
        while self
            .text
            .peek(0)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        {
            self.text.skip();
        }
    }

    /// `!name` or `!<name>`.
    fn tag(&mut self) {
        self.may_be_key();
        let verbatim = self.text.peek(1) == Some(b'<');
        while !self.text.is_blank_or_end(0) {
            match self.text.peek(0) {
                Some(b'>') if verbatim => return self.text.skip(),
                Some(b',') if !verbatim && self.depth > 0 => return,
                _ => self.text.skip(),
            }
        }
    }

    fn blanks_and_comments(&mut self) {
        loop {
            if self.text.column == 0 && self.text.is_byte_order_mark() {
                self.text.skip();
            }
            // A tab must not indent a possible key.
            let tabs = self.depth > 0 || !self.key_allowed;
            while matches!(self.text.peek(0), Some(b' '))
                || tabs && matches!(self.text.peek(0), Some(b'\t'))
            {
                self.text.skip();
            }
            if self.text.peek(0) == Some(b'#') {
                self.text.skip_line();
            }
            if !self.text.is_break(0) {
                return;
            }
            self.text.skip();
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

    /// The least column at which a line continues an entry of the innermost block collection.
    fn least_column(&self) -> usize {
        self.indents.last().map_or(0, |indent| indent + 1)
    }

    fn may_be_key(&mut self) {
        if self.depth == 0 && self.key_allowed {
            self.key = Some(Key {
                line: self.text.line,
                index: self.text.index,
                column: self.text.column,
            });
        }
        self.key_allowed = false;
    }

    fn forget_key(&mut self) {
        if self.depth == 0 {
            self.key = None;
        }
    }
}
