// An OpenAI-compatible endpoint on loopback for a gguf model, by node-llama-cpp: node llama_server.mjs MODULE MODEL
// It keeps JSON schemas by a grammar. Texts of the answer are short, as a small model would write on and on.
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
    if (schema.type === "array") return {type: "array", items: bounded(schema.items), maxItems: 2};
    if (schema.type !== "object") return schema;
    const fields = Object.entries(schema.properties).map(([name, each]) => [name, bounded(each)]);
    return {type: "object", properties: Object.fromEntries(fields)};
}

async function answer({messages, response_format, max_tokens, temperature, seed}) {
    const said = messages.map(({role, content}) => role === "assistant" ? {type: "model", response: [content]} : {type: role, text: content});
    const last = said.pop();
    await sequence.clearHistory();
    const session = new LlamaChatSession({contextSequence: sequence, autoDisposeSequence: false});
    session.setChatHistory(said);
    const schema = response_format?.json_schema?.schema;
    const grammar = schema && await llama.createGrammarForJsonSchema(bounded(schema));
    const found = await session.promptWithMeta(last.text, {grammar, maxTokens: max_tokens, temperature: temperature ?? 0.8, seed});
    const text = found.responseText;
    session.dispose({disposeSequence: false});
    const count = (each) => model.tokenize(each).length;
    return {
        id: "local", object: "chat.completion", created: 0, model: "local",
        choices: [{index: 0, message: {role: "assistant", content: text, refusal: null}, finish_reason: found.stopReason === "maxTokens" ? "length" : "stop"}],
        usage: {prompt_tokens: messages.reduce((sum, {content}) => sum + count(content), 0), completion_tokens: count(text)}
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
