// Checks the queries of the templates with the language service of Kusto: their syntax, and
// that each column exists and has the type that its table declares. The argument is the
// folder of the node module @kusto/language-service-next.
const fs = require("fs");
const path = require("path");

const service = path.resolve(process.argv[2]);
require(path.join(service, "bridge.min.js"));
require(path.join(service, "Kusto.Language.Bridge.min.js"));
const { KustoCode, GlobalState } = Kusto.Language;
const { DatabaseSymbol, TableSymbol } = Kusto.Language.Symbols;

const read = (name) => JSON.parse(fs.readFileSync(path.join(__dirname, name), "utf8"));
// types are the names of Kusto for the types of columns.
const types = { boolean: "bool", datetime: "datetime", dynamic: "dynamic", int: "int", string: "string" };
const table = (name, columns) =>
  new TableSymbol.$ctor7(name, `(${columns.map((c) => `['${c.name}']:${types[c.type]}`).join(", ")})`, null);

// problems returns the diagnostics of a query over tables, and calls result with the
// columns of its result.
function problems(query, tables, result = () => []) {
  const database = new DatabaseSymbol.$ctor1("workspace", tables, false);
  const code = KustoCode.ParseAndAnalyze(query, GlobalState.Default.WithDatabase(database));
  const found = [];
  const diagnostics = code.GetDiagnostics();
  for (let i = 0; i < diagnostics.Count; i++) {
    found.push(diagnostics.getItem(i).Message);
  }
  const columns = {};
  for (let i = 0; code.ResultType && i < code.ResultType.Columns.Count; i++) {
    const column = code.ResultType.Columns.getItem(i);
    columns[column.Name] = column.Type.Name;
  }
  return found.length ? found : result(columns);
}

function check(change) {
  const found = [];
  const resources = read("azuredeploy.json").resources;
  const tables = resources.filter((r) => r.type.endsWith("/tables")).map((r) => r.properties.schema);
  const rule = resources.find((r) => r.type.endsWith("/dataCollectionRules")).properties;
  for (const flow of rule.dataFlows) {
    const declared = rule.streamDeclarations[flow.streams[0]].columns;
    const target = tables.find((t) => "Custom-" + t.name === flow.outputStream);
    const mismatches = (columns) => target.columns
      .filter((c) => columns[c.name] !== types[c.type])
      .map((c) => `${c.name} is ${columns[c.name]}, and the table declares ${c.type}`);
    found.push(...problems(change(flow.transformKql), [table("source", declared)], mismatches));
  }
  const known = tables.map((t) => table(t.name, t.columns));
  for (const alert of read("analyticsrule.json").resources.map((r) => r.properties)) {
    const named = [
      ...alert.entityMappings.flatMap((e) => e.fieldMappings.map((m) => m.columnName)),
      ...Object.values(alert.customDetails), alert.alertDetailsOverride.alertSeverityColumnName,
      ...[...JSON.stringify(alert.alertDetailsOverride).matchAll(/{{(\w+)}}/g)].map((m) => m[1]),
    ];
    const missing = (columns) => named.filter((n) => !columns[n]).map((n) => `the rule uses ${n}, which the query does not return`);
    found.push(...problems(change(alert.query), known, missing));
  }
  return found;
}

// The service's own errors are long: it prints its source.
process.on("uncaughtException", (e) => {
  console.error(String(e.message).slice(0, 500));
  process.exit(1);
});
const found = check((query) => query);
found.forEach((text) => console.error(text));
for (const [from, to] of [["data", "dta"], ["tostring", "tostrng"], ["|", "||"]]) {
  if (check((query) => query.replaceAll(from, to)).length === 0) {
    found.push(from);
    console.error(`a query with ${to} in place of ${from} has no problem`);
  }
}
process.exit(found.length ? 1 : 0);
