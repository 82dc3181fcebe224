package configs

// Appliance is an appliance to poll. Exactly one of [Appliance.APIKey] and
// [Appliance.OAuth] must be set, and at least one stream must be enabled.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
type Appliance struct {
	// Name identifies the appliance in the source of events, in subjects and in metric
	// labels: 1 to 63 of a-z, 0-9 and -, and not "bridge". It must be unique.
	Name string `yaml:"name" required:"true" form:"name"`
	// URL is the appliance's address: http or https, a host and optionally a port, without
	// a path; /api/v1 is appended.
	URL string `yaml:"url" required:"true" schemes:"https,http"`
	// APIKey is the API key that was created on the appliance.
	APIKey Secret `yaml:"api_key"`
	OAuth  OAuth  `yaml:"oauth"`
	// Product is the product's name in the authorization scheme and in paths: letters,
	// digits, - and _.
	Product string `yaml:"product" default:"service" required:"true" form:"word"`
	// SchemeWord is the product's name in the authorization scheme, if it differs from the
	// one in paths. Absent: [Appliance.Product].
	SchemeWord string `yaml:"scheme_word" form:"word"`
	// Timeout is how long one request may take, including reading the response.
	Timeout Duration `yaml:"timeout" default:"30s" above:"0"`
	// RateLimit is the maximum number of requests per second, over all streams of the
	// appliance.
	RateLimit float64 `yaml:"rate_limit" default:"5" above:"0"`
	TLS       TLS     `yaml:"tls"`
	// Proxy is the URL of a proxy: http, https or socks5. Absent: the environment variables
	// HTTPS_PROXY and NO_PROXY apply.
	Proxy URL       `yaml:"proxy" schemes:"http,https,socks5"`
	Retry PollRetry `yaml:"retry"`
	// AuthRetry is how long to wait before the next request after the appliance rejected
	// the credentials.
	AuthRetry Duration `yaml:"auth_retry" default:"30s" above:"0"`
	// UnreachableAfter is the number of consecutive failed polls after which an event
	// reports that the appliance is unreachable.
	UnreachableAfter int        `yaml:"unreachable_after" default:"3" min:"1"`
	Detections       Detections `yaml:"detections"`
	Audit            Audit      `yaml:"audit"`
	// Records are the record queries, each a stream of its own. Absent: no records are
	// read.
	Records    []RecordQuery `yaml:"records"`
	Context    Context       `yaml:"context"`
	Notes      Notes         `yaml:"notes"`
	Evidence   Evidence      `yaml:"evidence"`
	Rules      Rules         `yaml:"rules"`
	BlindSpots BlindSpots    `yaml:"blind_spots"`
}

// OAuth configures OAuth 2.0 client credentials, which the cloud edition uses. Either all
// of its keys are set, or none.
//
//	appliances:
//	  - name: cloud
//	    url: https://tenant.example
//	    oauth: {token_url: "https://tenant.example/oauth2/token", client_id: an-id, client_secret_file: /run/secrets/cloud}
type OAuth struct {
	// TokenURL is the URL of the token endpoint: http or https.
	TokenURL URL `yaml:"token_url" schemes:"https,http"`
	// ClientID is the client id.
	ClientID string `yaml:"client_id"`
	// ClientSecret is the client secret.
	ClientSecret Secret `yaml:"client_secret"`
}

// IsSet reports whether any field of o is set.
func (o OAuth) IsSet() bool { return o != OAuth{} }

// PollRetry configures the wait after failed polls, which grows with each consecutive
// failure. It ends when a poll of another stream shows that the appliance is back.
type PollRetry struct {
	// Initial is the wait after the first failure.
	Initial Duration `yaml:"initial" default:"1s" above:"0"`
	// Max is the longest wait; at least [PollRetry.Initial].
	Max Duration `yaml:"max" default:"1m" above:"0"`
}

func (r *PollRetry) check(c checks, path string) { c.retry(path, r.Initial, r.Max) }

func (a *Appliance) check(c checks, path string) {
	if a.Name == "bridge" {
		c.wrong(path+".name", "is reserved for the bridge's own events; choose another name")
	}
	a.URL = c.bareURL(path+".url", a.URL, "put the key into api_key_file", "/api/v1 is appended")
	c.credentials(path, a)
	if !a.Detections.Enabled && !a.Audit.Enabled && len(a.Records) == 0 {
		c.wrong(path, "has no streams; enable detections or audit, or add records")
	}
}

func (c checks) credentials(path string, a *Appliance) {
	switch {
	case c.failedSecret(path+".api_key") || c.failed(path+".oauth"):
	case a.APIKey.IsSet() && a.OAuth.IsSet():
		c.wrong(path, "has both api_key and oauth; keep the one that this appliance accepts")
	case !a.APIKey.IsSet() && !a.OAuth.IsSet():
		c.wrong(path, "has no credentials; set api_key_file, api_key, or, for the cloud edition, oauth")
	case a.OAuth.IsSet():
		c.present(path+".oauth.token_url", a.OAuth.TokenURL.Value())
		c.present(path+".oauth.client_id", a.OAuth.ClientID)
		c.presentSecret(path+".oauth.client_secret", a.OAuth.ClientSecret)
	}
}
