// Starts Swagger UI with samples of requests in three languages. The samples show what was
// sent; before that, a request with the values that the description suggests.

const entries = (headers) => (headers ? [...headers.entries()] : []);

// A string in double quotes, with escapes that Python and Ruby know as well.
const quoted = (text) => JSON.stringify(String(text));
const rubyQuoted = (text) => quoted(text).replaceAll('#', '\\#');

// The body as text; a file that the user chose is named.
const bodyOf = (request) => {
	const body = request.get('body');
	if (body === undefined || body === null || body === '') return null;
	if (body instanceof File) return {file: body.name};
	return {text: typeof body === 'string' ? body : JSON.stringify(body)};
};

const python = (request) => {
	const body = bodyOf(request);
	const lines = ['import urllib.request', '', 'request = urllib.request.Request(', `    ${quoted(request.get('url'))},`];
	lines.push(`    method=${quoted(request.get('method').toUpperCase())},`, '    headers={');
	for (const [name, value] of entries(request.get('headers'))) lines.push(`        ${quoted(name)}: ${quoted(value)},`);
	lines.push('    },');
	if (body) lines.push(body.file ? `    data=open(${quoted(body.file)}, "rb").read(),` : `    data=${quoted(body.text)}.encode(),`);
	lines.push(')', 'with urllib.request.urlopen(request) as response:', '    print(response.status, response.read().decode())');
	return lines.join('\n');
};

const ruby = (request) => {
	const body = bodyOf(request);
	const method = request.get('method').toLowerCase();
	const lines = ['require "net/http"', '', `uri = URI(${rubyQuoted(request.get('url'))})`];
	lines.push(`request = Net::HTTP::${method[0].toUpperCase()}${method.slice(1)}.new(uri)`);
	for (const [name, value] of entries(request.get('headers'))) lines.push(`request[${rubyQuoted(name)}] = ${rubyQuoted(value)}`);
	if (body) lines.push(`request.body = ${body.file ? `File.binread(${rubyQuoted(body.file)})` : rubyQuoted(body.text)}`);
	lines.push('response = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https") do |http|');
	lines.push('  http.request(request)', 'end', 'puts response.code, response.body');
	return lines.join('\n');
};

// The request that an operation suggests: examples of its parameters and of its body.
const suggested = (system, path, method) => {
	const {fn, Im, specSelectors, authSelectors} = system;
	const operation = specSelectors.specResolvedSubtree(['paths', path, method]);
	if (!operation) return null;
	let url = path;
	const query = new URLSearchParams();
	for (const p of operation.get('parameters', Im.List())) {
		const value = p.get('example') ?? p.getIn(['schema', 'example']) ?? p.getIn(['schema', 'default']) ?? 1;
		if (p.get('in') === 'path') url = url.replace(`{${p.get('name')}}`, encodeURIComponent(value));
		else if (p.get('required')) query.set(p.get('name'), value);
	}
	const server = new URL(specSelectors.spec().getIn(['servers', 0, 'url'], ''), location.href).href.replace(/\/$/, '');
	const headers = {Authorization: authSelectors.authorized()?.getIn(['key', 'value']) ?? document.body.dataset.credential, Accept: 'application/json'};
	const request = {url: server + url + (query.size ? `?${query}` : ''), method: method.toUpperCase()};
	const content = operation.getIn(['requestBody', 'content']);
	if (content?.size) {
		const [type, media] = content.entries().next().value;
		headers['Content-Type'] = type;
		const example = media.get('example') ?? media.get('examples')?.first()?.get('value');
		const sample = example?.toJS?.() ?? example ?? fn.getSampleSchema(media.get('schema')?.toJS() ?? {}, type, {includeReadOnly: false});
		request.body = typeof sample === 'string' ? sample : JSON.stringify(sample);
	}
	return Im.fromJS({...request, headers: Im.OrderedMap(headers)});
};

const samples = (system) => ({
	fn: {requestSnippetGenerator_python: python, requestSnippetGenerator_ruby: ruby},
	wrapComponents: {
		// The samples take the place of the command that is shown after a request.
		curl: () => () => null,
		responses: (Responses) => (props) => {
			const h = system.React.createElement;
			const RequestSnippets = system.getComponent('RequestSnippets', true);
			const request = props.request ?? suggested(system.getSystem(), props.path, props.method);
			return h('div', null,
				request && h('div', {className: 'samples'}, h(RequestSnippets, {request})),
				h(Responses, props));
		},
	},
});

window.explorer = SwaggerUIBundle({
	domNode: document.getElementById('explorer'),
	url: 'openapi.json',
	validatorUrl: null,
	queryConfigEnabled: false,
	presets: [SwaggerUIBundle.presets.apis],
	plugins: [samples],
	layout: 'BaseLayout',
	deepLinking: true,
	docExpansion: 'list',
	defaultModelsExpandDepth: 0,
	filter: true,
	showExtensions: true,
	showCommonExtensions: true,
	tryItOutEnabled: true,
	displayRequestDuration: true,
	requestSnippets: {
		generators: {
			curl_bash: {title: 'cURL', syntax: 'bash'},
			python: {title: 'Python', syntax: 'text'},
			ruby: {title: 'Ruby', syntax: 'text'},
		},
		defaultExpanded: true,
		languages: ['curl_bash', 'python', 'ruby'],
	},
});
