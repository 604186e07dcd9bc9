// An OpenAI-compatible endpoint on loopback for a gguf model, by node-llama-cpp: node llama_server.mjs MODULE MODEL
// It keeps JSON schemas and calls of tools by a grammar. Texts of the answer are short, as a small model would write on and on.
import http from "node:http";

const [modulePath, modelPath] = process.argv.slice(2);
const {getLlama, LlamaChatSession} = await import(modulePath);
const llama = await getLlama({gpu: false, build: "never", maxThreads: 1, logLevel: "error"});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: 6144, threads: 1});
const sequence = context.getSequence();

function bounded(schema) {
    if (schema.enum) return {enum: schema.enum};
    if (schema.type === "string") return {type: "string", maxLength: 80};
    if (schema.type === "array") return {type: "array", items: bounded(schema.items ?? {type: "string"}), maxItems: 2};
    if (schema.type !== "object") return schema;
    const fields = Object.entries(schema.properties ?? {}).map(([name, each]) => [name, bounded(each)]);
    return {type: "object", properties: Object.fromEntries(fields)};
}

// One tool with its arguments, or a text that ends.
function schemaOfTools(tools) {
    const calls = tools.map(({function: {name, parameters}}) => ({
        type: "object", properties: {tool: {const: name}, arguments: bounded(parameters)}
    }));
    return {oneOf: [...calls, {type: "object", properties: {say: {type: "string", maxLength: 80}}}]};
}

function textOfTools(tools) {
    const lines = tools.map(({function: {name, description, parameters}}) => `${name}(${Object.keys(parameters.properties ?? {})}): ${description}`);
    return `Answer {"tool": NAME, "arguments": {}} to call a tool, {"say": TEXT} to end. Tools:\n${lines.join("\n")}`;
}

function asChat({role, content, tool_calls}) {
    if (role === "assistant") {
        const calls = (tool_calls ?? []).map(({function: {name, arguments: given}}) => `{"tool": "${name}", "arguments": ${given}}`);
        return {type: "model", response: [[content, ...calls].filter(Boolean).join("\n")]};
    }
    return role === "tool" ? {type: "user", text: `Result: ${content}`} : {type: role, text: content};
}

// A call that was cut at its maximum of tokens stays a text, as it is no JSON.
function messageOf(text, tools) {
    let found = {say: text};
    try {
        if (tools) found = JSON.parse(text);
    } catch {}
    if (!found.tool) return {role: "assistant", content: found.say, refusal: null};
    const call = {name: found.tool, arguments: JSON.stringify(found.arguments)};
    return {role: "assistant", content: null, refusal: null, tool_calls: [{id: `call_${++calls}`, type: "function", function: call}]};
}

let calls = 0;

async function answer({messages, tools, response_format, max_tokens, temperature, seed}) {
    const said = messages.map(asChat);
    if (tools) said[0].text += `\n\n${textOfTools(tools)}`;
    const last = said.pop();
    await sequence.clearHistory();
    const session = new LlamaChatSession({contextSequence: sequence, autoDisposeSequence: false});
    session.setChatHistory(said);
    const asked = response_format?.json_schema?.schema;
    const schema = tools ? schemaOfTools(tools) : asked && bounded(asked);
    const grammar = schema && await llama.createGrammarForJsonSchema(schema);
    const found = await session.promptWithMeta(last.text, {grammar, maxTokens: max_tokens, temperature: temperature ?? 0.8, seed});
    const text = found.responseText;
    session.dispose({disposeSequence: false});
    const count = (each) => model.tokenize(each).length;
    const message = messageOf(text, tools);
    const ended = message.tool_calls ? "tool_calls" : "stop";
    return {
        id: "local", object: "chat.completion", created: 0, model: "local",
        choices: [{index: 0, message, finish_reason: found.stopReason === "maxTokens" ? "length" : ended}],
        usage: {prompt_tokens: [...said, last].reduce((sum, {text, response}) => sum + count(text ?? response[0]), 0), completion_tokens: count(text)}
    };
}

let turn = Promise.resolve();
const server = http.createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part)).on("end", () => {
        turn = turn.then(async () => {
            try {
                const found = await answer(JSON.parse(Buffer.concat(parts)));
                response.writeHead(200, {"content-type": "application/json"}).end(JSON.stringify(found));
            } catch (problem) {
                console.error(problem);
                response.writeHead(500, {"content-type": "application/json"}).end(JSON.stringify({error: {message: String(problem)}}));
            }
        });
    });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit(0));
