package jira

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// node is a node of Atlassian's document format
// (https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/).
type node struct {
	Type    string         `json:"type"`
	Version int            `json:"version"`
	Text    *string        `json:"text"`
	Attrs   map[string]any `json:"attrs"`
	Marks   []node         `json:"marks"`
	Content []node         `json:"content"`
}

// children lists the nodes that a node may contain. Nodes that are not listed cannot contain
// text.
var children = map[string][]string{
	"doc":        {"paragraph", "bulletList", "heading", "codeBlock", "rule"},
	"bulletList": {"listItem"},
	"listItem":   {"paragraph", "bulletList", "codeBlock"},
	"paragraph":  {"text", "hardBreak"},
	"heading":    {"text", "hardBreak"},
	"codeBlock":  {"text"},
}

// checkDocument validates a description.
func checkDocument(raw []byte) error {
	if len(raw) > 32767 {
		return errors.New("CONTENT_LIMIT_EXCEEDED")
	}
	var doc node
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return err
	}
	if doc.Type != "doc" || doc.Version != 1 || doc.Content == nil {
		return errors.New("the root must be a doc of version 1 with content")
	}
	return doc.check()
}

func (n node) check() error {
	for _, child := range n.Content {
		if !slices.Contains(children[n.Type], child.Type) {
			return fmt.Errorf("%q in %q", child.Type, n.Type)
		}
		if child.Type == "text" && (child.Text == nil || *child.Text == "") {
			return errors.New("a text node without text")
		}
		for _, mark := range child.Marks {
			switch href, _ := mark.Attrs["href"].(string); {
			case mark.Type == "link" && (strings.HasPrefix(href, "https://") || strings.HasPrefix(href, "http://")):
			case mark.Type == "strong", mark.Type == "em", mark.Type == "code":
			default:
				return fmt.Errorf("mark %q", mark.Type)
			}
		}
		if err := child.check(); err != nil {
			return err
		}
	}
	return nil
}

// sign returns the X-Hub-Signature of a body, as in WebSub.
func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
