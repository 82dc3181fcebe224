package endpoint

// webhookExamples returns examples of webhooks: of one that takes events, of each preset, and of
// the ticket systems.
func webhookExamples() []Example {
	const urgent = "    match: detection.risk_score >= 80 # leave it out for all events\n"
	return []Example{
		{"webhook", "an HTTP endpoint that takes CloudEvents", `    webhook:
      url: https://collector.example/events
      auth: {bearer_file: ./webhook.key} # a file with the token and nothing else
`},
		{"slack", "a channel of Slack", `    webhook:
      preset: slack
      url: https://hooks.slack.com/services/T00000000/B00000000/REPLACE # the incoming webhook of the channel; a secret
` + urgent},
		{"teams", "a channel of Microsoft Teams", `    webhook:
      preset: teams
      url: https://REPLACE.environment.api.powerplatform.com/powerautomate/workflows/REPLACE # the workflow's URL; a secret
` + urgent},
		{"discord", "a channel of Discord", `    webhook:
      preset: discord
      url: https://discord.com/api/webhooks/000000000000000000/REPLACE # the webhook of the channel; a secret
` + urgent},
		{"pagerduty", "incidents in PagerDuty", `    webhook:
      preset: pagerduty
      key_file: ./pagerduty.key # a file with the integration key of the service
` + urgent},
		{"splunk_hec", "the HTTP Event Collector of Splunk", `    webhook:
      preset: splunk_hec
      url: https://splunk.example:8088
      key_file: ./splunk_hec.key # a file with the collector's token
      #index: ndr # instead of the token's own
      #tls: {ca_file: ./splunk-ca.pem} # if the collector's certificate is self-signed
`},
		{"elasticsearch", "Elasticsearch and OpenSearch, in the Elastic Common Schema", `    webhook:
      preset: elasticsearch
      url: https://es.example:9200
      key_file: ./elasticsearch.key # a file with the API key, encoded as Elasticsearch shows it
    format: ecs
`},
		{"datadog", "the logs of Datadog", `    webhook:
      preset: datadog
      url: https://http-intake.logs.datadoghq.eu # of your site
      key_file: ./datadog.key # a file with the API key
`},
		{"sentinel", "Microsoft Sentinel", `    webhook:
      preset: sentinel
      url: https://REPLACE.westeurope-1.ingest.monitor.azure.com # of the data collection endpoint
      rule_id: dcr-00000000000000000000000000000000 # of the data collection rule
      auth:
        oauth:
          token_url: https://login.microsoftonline.com/REPLACE/oauth2/v2.0/token # with the tenant's id
          client_id: REPLACE
          client_secret_file: ./sentinel.key # a file with the client secret
`},
		{"jira", "an issue in Jira for each detection", `    webhook:
      url: https://REPLACE.atlassian.net
      auth: {username: ndrbridge@example.com, password_file: ./jira.key} # a file with the account's API token
      ticket: {system: jira, project: SEC, link: false}
` + urgent},
		{"servicenow", "an incident in ServiceNow for each detection", `    webhook:
      url: https://REPLACE.service-now.com
      auth: {username: ndrbridge, password_file: ./servicenow.key} # a file with the account's password
      ticket: {system: servicenow, link: false}
` + urgent},
	}
}
