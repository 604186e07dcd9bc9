// A field above each long table shows the rows that have all of its words.
const LONG = 40;

for (const table of document.querySelectorAll("article table")) {
  const rows = [...table.querySelectorAll("tbody tr")];
  if (rows.length < LONG) continue;
  const field = Object.assign(document.createElement("input"), {
    type: "search",
    placeholder: "Filter",
    ariaLabel: "Filter the rows of the table",
  });
  field.style.cssText = "width: 100%; padding: .5em; margin: .5em 0; font: inherit; border: 1px solid; border-radius: .2em";
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  table.before(field);
}
