// Answers as they come: Arrow's stream format, with exact 64-bit numbers.
export { tableFromIPC } from "@uwdata/flechette";
