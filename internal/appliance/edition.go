package appliance

import (
	"context"
	"encoding/json"
	"net/http"
)

// Edition fetches the name of the appliance's edition, shortened to printable characters.
// It is empty if the answer does not have the expected shape.
func (c *Client) Edition(ctx context.Context) (string, error) {
	var answer struct{ Edition string }
	var cred credential
	r := request{method: http.MethodGet, path: "/" + c.product + "/edition", small: true, signedIn: &cred}
	err := c.fetch(ctx, r, func(body []byte) error {
		if json.Unmarshal(body, &answer) != nil {
			answer.Edition = ""
		}
		return nil
	})
	return c.presentable(answer.Edition, cred), err
}

// presentable returns a text of the appliance as one short line of printable characters,
// without the secrets that a request was sent with.
func (c *Client) presentable(text string, sent credential) string {
	return shorten(c.link.secrets(sent.secrets...).Hide(printable(text)))
}
