//! Text into HTML.

/// Text as content of an element or of a quoted attribute.
pub fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter if letter.is_control() && !matches!(letter, '\n' | '\t') => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// JSON as the content of a `script` element: nothing in it can end the element.
pub fn json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).expect("numbers, strings and maps of them");
    json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

/// A table. Cells are markup; the first of a row is its head. `class` may tell how it looks.
pub struct Table {
    head: String,
    columns: usize,
    rows: String,
    class: &'static str,
}

impl Table {
    /// With these column heads; the first is the rows'.
    pub fn new(class: &'static str, heads: &[&str]) -> Table {
        let head = heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", text(head))).collect();
        Table { head, columns: heads.len(), rows: String::new(), class }
    }

    /// Adds a row of markup.
    pub fn row(&mut self, cells: &[String]) {
        debug_assert_eq!(cells.len(), self.columns);
        self.rows.push_str("<tr>");
        for (at, cell) in cells.iter().enumerate() {
            if at == 0 {
                self.rows.push_str(&format!("<th scope=\"row\">{cell}</th>"));
            } else {
                self.rows.push_str(&format!("<td>{cell}</td>"));
            }
        }
        self.rows.push_str("</tr>\n");
    }

    /// The element; it scrolls in itself where the screen is narrow.
    pub fn html(&self, caption: &str) -> String {
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table class=\"{}\"><caption>{caption}\
             </caption><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
            self.class,
            self.head,
            self.rows,
            caption = text(caption),
        )
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(super::text("<b a=\"1\" b='2'>&"), "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;");
        assert_eq!(super::text("a\u{7}b\n"), "a\u{fffd}b\n");
    }

    #[test]
    fn json_cannot_end_its_element() {
        let json = super::json(&"</script><!-- & -->");
        assert!(!json.contains(['<', '>', '&']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!-- & -->");
    }
}
