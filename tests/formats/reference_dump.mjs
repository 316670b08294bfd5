// Prints a GGUF file as gguf_dump does, read by @huggingface/gguf.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../npm/package.json", import.meta.url));
let gguf;
try {
  ({ gguf } = await import(pathToFileURL(require.resolve("@huggingface/gguf"))));
} catch {
  process.exit(77);
}
const { metadata, typedMetadata, tensorInfos } = await gguf(process.argv[2], {
  allowLocalFile: true,
  typedMetadata: true,
});

const STRING = 8, FLOAT32 = 6, FLOAT64 = 12, ARRAY = 9;
const hex = (text) => Buffer.from(text, "utf8").toString("hex");

// Six digits behind the point and an exponent of at least two, as printf's %.6e has it.
const scientific = (x) => x.toExponential(6).replace(/e([+-])(\d)$/, "e$10$2");

function valueText({ value, type, subType }) {
  if (type === ARRAY) {
    if (subType === FLOAT32 || subType === FLOAT64) return `${value.length} floats`;
    const items = value.map((x) => (subType === STRING ? hex(x) : String(x)));
    return `${value.length}:` + items.map((x) => " " + x).join("");
  }
  if (type === STRING) return hex(value);
  if (type === FLOAT32 || type === FLOAT64) return scientific(value);
  return String(value);
}

const lines = [`version ${metadata.version}`];
for (const [key, entry] of Object.entries(typedMetadata)) {
  if (["version", "tensor_count", "kv_count"].includes(key)) continue;
  lines.push(`${key} ${valueText(entry)}`);
}
for (const { name, dtype, shape, offset } of tensorInfos) {
  lines.push(`${name} ${dtype} ${shape.join(" ")} at ${offset}`);
}
process.stdout.write(lines.join("\n") + "\n");
