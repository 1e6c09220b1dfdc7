// Runs released, unmodified llama.cpp (the npm package node-llama-cpp) on one GGUF file and times it.
//
// It asks for the plainest path through the engine: CPU only, weights mapped with mmap (read with
// --no-mmap), a small context, greedy sampling. The prompt is a fixed run of token numbers, so no
// tokenizer text is involved and synthetic models serve as well as real ones; --text gives a trained
// model words instead. End-of-text tokens do not stop it: exactly --tokens tokens come out, whatever
// the weights say. The last line of stdout is one JSON object:
//
//   tokens            the token ids, to compare runs with; with --text, text says what they mean
//   load_s            from start of loading to a ready context
//   first_token_s     from first evaluation to the first token (the whole prompt, one batch)
//   prompts_s         the same of each time that the prompt is evaluated, with --prompts; first_token_s is the last one's
//   token_s           seconds of each following token; token_s_median is their median
//   load_read_bytes   bytes read from disks while it loaded; pass_read_bytes: for each token, the first included
//   pass_pager_s      processor time of weightpager's thread in this process, for each token; null where there is none
//   rss_max_bytes     peak resident memory of the process, shared file pages included
//   rss_anon_bytes    anonymous memory at the end: much of the model's size when the engine copied it
//   rss_own_bytes     resident at the end outside the mapping of the model: what the engine needs for
//                     itself (under weightpager the mapping has no name, and this is no measure of it)
//
//   node bench/engines/llama.mjs --model FILE [--tokens 16] [--threads N] [--prompt-tokens 8]
//                                [--prompts 1] [--text WORDS] [--context 256] [--no-mmap] [--verbose]
// The engine is looked for where tools/scripts/engine.sh puts it; WEIGHTPAGER_ENGINE names another folder.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";

function fail(message) {
    console.error(`llama.mjs: ${message}`);
    process.exit(2);
}

function wholeNumber(name, text, least) {
    const value = Number(text);
    if (!Number.isInteger(value) || value < least)
        fail(`--${name} takes a whole number of at least ${least}, not '${text}'`);
    return value;
}

function readOptions() {
    let given;
    try {
        given = parseArgs({
            options: {
                model: {type: "string"},
                tokens: {type: "string", default: "16"},
                threads: {type: "string", default: String(os.cpus().length)},
                "prompt-tokens": {type: "string", default: "8"},
                prompts: {type: "string", default: "1"},
                text: {type: "string"},
                context: {type: "string", default: "256"},
                "no-mmap": {type: "boolean", default: false},
                verbose: {type: "boolean", default: false}
            }
        }).values;
    } catch (error) {
        fail(`${error.message}\nusage: node llama.mjs --model FILE [--tokens 16] [--threads N] ` +
            "[--prompt-tokens 8] [--prompts 1] [--text WORDS] [--context 256] [--no-mmap] [--verbose]");
    }
    if (given.model == null)
        fail("which model? Example: node llama.mjs --model model.gguf --tokens 16");
    if (!fs.existsSync(given.model))
        fail(`${given.model}: no such file`);
    const options = {
        model: fs.realpathSync(given.model),
        tokens: wholeNumber("tokens", given.tokens, 1),
        threads: wholeNumber("threads", given.threads, 1),
        promptTokens: wholeNumber("prompt-tokens", given["prompt-tokens"], 1),
        prompts: wholeNumber("prompts", given.prompts, 1),
        text: given.text ?? null,
        context: wholeNumber("context", given.context, 16),
        mmap: !given["no-mmap"],
        verbose: given.verbose
    };
    if (options.promptTokens + options.tokens > options.context)
        fail(`${options.promptTokens} prompt tokens and ${options.tokens} new ones do not fit a ` +
            `context of ${options.context}: give --context ${options.promptTokens + options.tokens}`);
    return options;
}

async function importEngine() {
    const cache = process.env.WEIGHTPAGER_CACHE ?? path.join(os.homedir(), ".cache", "weightpager");
    const folder = process.env.WEIGHTPAGER_ENGINE ?? path.join(cache, "engine");
    try {
        const found = createRequire(path.join(folder, "resolve.js")).resolve("node-llama-cpp");
        return await import(pathToFileURL(found));
    } catch (error) {
        return fail(`no llama.cpp in ${folder} (${error.message.split("\n")[0]}): run tools/scripts/engine.sh`);
    }
}

function quietLogger(level, message) {
    if (level === "error" || level === "fatal")
        console.error(`llama.cpp: ${message}`);
}

// The context as plain as it gets: one sequence, no flash attention to be chosen by the machine.
async function load(engine, options) {
    const llama = await engine.getLlama({
        gpu: false,
        build: "never",
        progressLogs: false,
        maxThreads: options.threads,
        ...(options.verbose
            ? {logLevel: "debug", logger: (level, message) => console.error(`llama.cpp: ${message}`)}
            : {logger: quietLogger})
    });
    const model = await llama.loadModel({
        modelPath: options.model,
        gpuLayers: 0,
        useMmap: options.mmap,
        defaultContextFlashAttention: false,
        ignoreMemorySafetyChecks: true
    });
    const context = await model.createContext({
        contextSize: options.context,
        batchSize: Math.min(options.context, Math.max(options.promptTokens, 16)),
        sequences: 1,
        threads: {ideal: options.threads, min: options.threads},
        flashAttention: false,
        ignoreMemorySafetyChecks: true
    });
    return {model, context};
}

// Token numbers spread over the vocabulary past its first (control) entries: the same for each run.
function promptOf(model, {text, promptTokens: count}) {
    if (text != null)
        return model.tokenize(text);
    const first = 3;
    const vocabularySize = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
    return Array.from({length: count}, (_, i) => first + (i * 7919 + 17) % (vocabularySize - first));
}

async function generate(sequence, prompt, count) {
    const tokens = [];
    const seconds = [];
    const readBytes = [];
    const pagerSeconds = [];
    let readBefore = diskReadBytes();
    let pagerBefore = pagerRanSeconds();
    let before = performance.now();
    for await (const token of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
        const now = performance.now();
        const read = diskReadBytes();
        const pager = pagerRanSeconds();
        tokens.push(token);
        seconds.push((now - before) / 1000);
        readBytes.push(read - readBefore);
        pagerSeconds.push(pager == null ? null : rounded(pager - pagerBefore));
        before = now;
        readBefore = read;
        pagerBefore = pager;
        if (tokens.length === count)
            break;
    }
    return {tokens, seconds, readBytes, pagerSeconds};
}

function median(numbers) {
    if (numbers.length === 0)
        return null;
    const sorted = [...numbers].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function statusBytes(key) {
    const line = fs.readFileSync("/proc/self/status", "utf8").split("\n")
        .find((each) => each.startsWith(key + ":"));
    return line == null ? null : parseInt(line.slice(key.length + 1), 10) * 1024;
}

function diskReadBytes() {
    return Number(/^read_bytes: (\d+)$/m.exec(fs.readFileSync("/proc/self/io", "utf8"))[1]);
}

// The first field of schedstat: nanoseconds on a processor.
function pagerRanSeconds() {
    const tasks = "/proc/self/task";
    pagerThread ??= fs.readdirSync(tasks)
        .find((task) => fs.readFileSync(`${tasks}/${task}/comm`, "utf8") === "wp-pager\n");
    if (pagerThread == null)
        return null;
    return parseInt(fs.readFileSync(`${tasks}/${pagerThread}/schedstat`, "utf8"), 10) / 1e9;
}

// Sums smaps over all mappings but the model's own.
function ownBytes(modelPath) {
    let ofModel = false;
    let sum = 0;
    for (const line of fs.readFileSync("/proc/self/smaps", "utf8").split("\n")) {
        if (/^[0-9a-f]+-[0-9a-f]+ /.test(line))
            ofModel = line.endsWith(modelPath);
        else if (!ofModel && line.startsWith("Rss:"))
            sum += parseInt(line.slice(4), 10) * 1024;
    }
    return sum;
}

let pagerThread;
const rounded = (seconds) => Math.round(seconds * 1e6) / 1e6;

const options = readOptions();
const engine = await importEngine();
const readBeforeLoad = diskReadBytes();
const loadStart = performance.now();
const {model, context} = await load(engine, options);
const loadSeconds = (performance.now() - loadStart) / 1000;
const loadReadBytes = diskReadBytes() - readBeforeLoad;
const prompt = promptOf(model, options);
const sequence = context.getSequence();
const promptSeconds = [];
while (promptSeconds.length < options.prompts - 1) {
    promptSeconds.push((await generate(sequence, prompt, 1)).seconds[0]);
    await sequence.clearHistory();
}
const {tokens, seconds, readBytes, pagerSeconds} = await generate(sequence, prompt, options.tokens);
promptSeconds.push(seconds[0]);

const report = {
    engine: "llama.cpp",
    model: options.model,
    threads: context.currentThreads || options.threads,
    prompt_tokens: prompt.length,
    tokens,
    text: options.text == null ? null : model.detokenize(tokens),
    load_s: rounded(loadSeconds),
    first_token_s: rounded(seconds[0]),
    prompts_s: promptSeconds.map(rounded),
    token_s: seconds.slice(1).map(rounded),
    token_s_median: seconds.length > 1 ? rounded(median(seconds.slice(1))) : null,
    load_read_bytes: loadReadBytes,
    pass_read_bytes: readBytes,
    pass_pager_s: pagerSeconds,
    rss_max_bytes: statusBytes("VmHWM"),
    rss_anon_bytes: statusBytes("RssAnon"),
    rss_own_bytes: ownBytes(options.model)
};
fs.writeSync(1, JSON.stringify(report) + "\n");
await context.dispose();
await model.dispose();
