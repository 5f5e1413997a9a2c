//! A cursor over the characters of a YAML text.

/// A position in a text that advances by characters and line breaks.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// The index of the next byte.
    pub(super) at: usize,
    /// How many lines are before it.
    pub(super) line: usize,
    /// How many characters are before it.
    pub(super) index: usize,
    /// How many characters of its line are before it.
    pub(super) column: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
            line: 0,
            index: 0,
            column: 0,
        }
    }

    pub(super) fn is_byte_order_mark(&self) -> bool {
        self.bytes[self.at..].starts_with(b"\xEF\xBB\xBF")
    }

    pub(super) fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Skips one character, or one line break.
    pub(super) fn skip(&mut self) {
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

    /// Skips the rest of the line, up to its line break.
    pub(super) fn skip_line(&mut self) {
        while self.peek(0).is_some() && !self.is_break(0) {
            self.skip();
        }
    }

    /// The length in bytes of the line break `ahead`, or 0 if there is none.
    pub(super) fn line_break(&self, ahead: usize) -> usize {
        match self.bytes.get(self.at + ahead..).unwrap_or_default() {
            [b'\r', b'\n', ..] | [0xC2, 0x85, ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            [0xE2, 0x80, 0xA8 | 0xA9, ..] => 3,
            _ => 0,
        }
    }

    pub(super) fn is_break(&self, ahead: usize) -> bool {
        self.line_break(ahead) > 0
    }

    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.peek(ahead), Some(b' ' | b'\t'))
    }

    pub(super) fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break(ahead) || self.peek(ahead).is_none()
    }

    pub(super) fn is_document_marker(&self) -> bool {
        let rest = &self.bytes[self.at..];
        self.column == 0
            && (rest.starts_with(b"---") || rest.starts_with(b"..."))
            && self.is_blank_or_end(3)
    }
}
