package ticketopener

import "ndrbridge/sinks/webhook/card"

// node is a node of Atlassian's document format
// (https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/).
type node struct {
	Type    string            `json:"type"`
	Version int               `json:"version,omitempty"`
	Text    string            `json:"text,omitempty"`
	Attrs   map[string]string `json:"attrs,omitempty"`
	Marks   []node            `json:"marks,omitempty"`
	Content []node            `json:"content,omitempty"`
}

// document formats a card. All texts are literal.
func document(c card.Card) node {
	doc := node{Type: "doc", Version: 1}
	if c.Note != "" {
		doc.Content = append(doc.Content, paragraph(text(c.Note)))
	}
	list := node{Type: "bulletList"}
	for _, f := range c.Facts {
		name := text(f.Name + ":")
		name.Marks = []node{{Type: "strong"}}
		list.Content = append(list.Content, node{Type: "listItem", Content: []node{paragraph(name, text(" "+f.Value))}})
	}
	if len(list.Content) > 0 {
		doc.Content = append(doc.Content, list)
	}
	if c.Link != "" {
		link := text("Open the detection")
		link.Marks = []node{{Type: "link", Attrs: map[string]string{"href": c.Link}}}
		doc.Content = append(doc.Content, paragraph(link))
	}
	if len(doc.Content) == 0 {
		doc.Content = []node{paragraph(text(c.Title))}
	}
	return doc
}

func paragraph(content ...node) node { return node{Type: "paragraph", Content: content} }

// text returns a text node, truncated so that the whole document stays within the limit
// of a field.
func text(s string) node {
	const maxText = 1000
	return node{Type: "text", Text: card.Fit(s, maxText, card.Plain)}
}
