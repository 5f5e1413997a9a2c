//! Skips scalars, whose text may contain brackets that open nothing.

use super::Scanner;

impl Scanner<'_> {
    /// A quoted scalar, over any number of lines.
    pub(super) fn quoted(&mut self, quote: u8) {
        self.may_be_key();
        self.text.skip();
        while let Some(byte) = self.text.peek(0) {
            if byte == b'\\' && quote == b'"' {
                self.text.skip();
            } else if byte == quote {
                self.text.skip();
                if quote == b'"' || self.text.peek(0) != Some(quote) {
                    return;
                }
            }
            self.text.skip();
        }
    }

    /// A plain scalar, over as many lines as are indented deeper than the collection that it is in.
    pub(super) fn plain(&mut self) -> Option<()> {
        self.may_be_key();
        let least = self.least_column();
        let in_brackets = self.depth > 0;
        let mut line_begins = false;
        while !self.text.is_document_marker() && self.text.peek(0) != Some(b'#') {
            while !self.text.is_blank_or_end(0) {
                match self.text.peek(0)? {
                    b':' if self.text.is_blank_or_end(1) => break,
                    b':' if in_brackets
                        && matches!(
                            self.text.peek(1),
                            Some(b',' | b'?' | b'[' | b']' | b'{' | b'}')
                        ) =>
                    {
                        return None;
                    }
                    b',' | b'[' | b']' | b'{' | b'}' if in_brackets => break,
                    _ => self.text.skip(),
                }
                line_begins = false;
            }
            if !(self.text.is_blank(0) || self.text.is_break(0)) {
                break;
            }
            while self.text.is_blank(0) || self.text.is_break(0) {
                if line_begins && self.text.column < least && self.text.peek(0) == Some(b'\t') {
                    return None;
                }
                line_begins |= self.text.is_break(0);
                self.text.skip();
            }
            if !in_brackets && self.text.column < least {
                break;
            }
        }
        self.key_allowed |= line_begins;
        Some(())
    }

    /// A block scalar: `|` or `>` and the lines that are indented deeper.
    pub(super) fn block_scalar(&mut self) -> Option<()> {
        self.forget_key();
        self.key_allowed = true;
        self.text.skip();
        let mut indent = 0;
        let mut chomping = false;
        loop {
            match self.text.peek(0) {
                Some(b'+' | b'-') if !chomping => chomping = true,
                Some(digit @ b'1'..=b'9') if indent == 0 => {
                    indent = self.indents.last().copied().unwrap_or(0) + usize::from(digit - b'0');
                }
                _ => break,
            }
            self.text.skip();
        }
        while self.text.is_blank(0) {
            self.text.skip();
        }
        if self.text.peek(0) == Some(b'#') {
            self.text.skip_line();
        }
        if !self.text.is_break(0) && self.text.peek(0).is_some() {
            return None;
        }
        self.text.skip();
        self.block_scalar_indent(&mut indent)?;
        while self.text.column == indent && self.text.peek(0).is_some() {
            self.text.skip_line();
            self.text.skip();
            self.block_scalar_indent(&mut indent)?;
        }
        Some(())
    }

    /// Skips to the next line with text. Its indentation becomes the scalar's if that is still 0.
    fn block_scalar_indent(&mut self, indent: &mut usize) -> Option<()> {
        let mut widest = 0;
        loop {
            let inside = |column| *indent == 0 || column < *indent;
            while inside(self.text.column) && self.text.peek(0) == Some(b' ') {
                self.text.skip();
            }
            widest = widest.max(self.text.column);
            if inside(self.text.column) && self.text.peek(0) == Some(b'\t') {
                return None;
            }
            if !self.text.is_break(0) {
                break;
            }
            self.text.skip();
        }
        if *indent == 0 {
            *indent = widest.max(self.least_column()).max(1);
        }
        Some(())
    }
}
