# For scripts of this folder: `. "$(dirname "$0")/usage.sh"` prints the comment at the head of the
# script, and ends it, where help is asked for.
case ${1:-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 0
  ;;
esac
