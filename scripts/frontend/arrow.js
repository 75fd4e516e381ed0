// Answers as they come: Arrow's stream format, with exact 64-bit numbers.
export { columnFromArray, tableFromArrays, tableFromIPC, tableToIPC } from "@uwdata/flechette";
